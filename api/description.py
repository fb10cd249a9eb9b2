"""The served OpenAPI: what the routes say of themselves, and the errors of all of them from one place.

FastAPI describes a 422 that is never given here, and knows nothing of what stands before the routes: the
door, the limit on bodies, servers that are away. Which error an operation can give follows from what it
takes: a key, parameters, an id, a body. A route adds what is its own by `responses`.
"""

from typing import Any

from fastapi import FastAPI

from api.views.error import ErrorView

ERRORS = {
    400: "What was sent cannot be carried out; `param` names the field.",
    401: "No valid key.",
    403: "The key may not do this.",
    404: "No such thing in this project.",
    408: "The request came too slowly.",
    409: "The state of things does not allow it; trying again is of no use.",
    413: "The body is too large.",
    416: "The range lies beyond the end.",
    429: "Too often or too much; `retry-after` says when to come back.",
    503: "The database or the artifact store is away, and nothing was changed; come back in a moment.",
}
OF_A_KEY = (401, 403, 429, 503)
OF_A_BODY = (400, 404, 408, 413)
OF_PARAMETERS = (400,)
OF_AN_ID = (404,)
ID_PARAMETERS = ("after",)
NEVER_GIVEN = "422"
METHODS = ("get", "head", "post", "put", "patch", "delete")


class DescribedApi(FastAPI):
    """FastAPI with `openapi` as it is meant here."""

    def openapi(self) -> dict[str, Any]:
        """The description, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            _describe_errors(document)
            _require_tags(document, document["components"]["schemas"])
            self.openapi_schema = document
        return self.openapi_schema


def _describe_errors(document: dict[str, Any]) -> None:
    for path in document["paths"].values():
        for method in METHODS:
            if method in path:
                _describe_operation(path[method])
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["schemas"] |= _schemas_of_errors()
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["responses"] = {_name(status): _answer(text) for status, text in ERRORS.items()}


def _describe_operation(operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop(NEVER_GIVEN, None)
    own = {int(status) for status in answers if int(status) in ERRORS and "security" in operation}
    for status in sorted(own | _errors_of(operation)):
        answers[str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    operation["responses"] = dict(sorted(answers.items()))


def _errors_of(operation: dict[str, Any]) -> set[int]:
    """What stands before the routes, and what their arguments can be refused for."""
    parameters = operation.get("parameters", [])
    takes_id = any(p["in"] == "path" or p["name"] in ID_PARAMETERS for p in parameters)
    rules = (
        ("security" in operation, OF_A_KEY),
        (bool(parameters), OF_PARAMETERS),
        (takes_id, OF_AN_ID),
        ("requestBody" in operation, OF_A_BODY),
    )
    return {status for applies, statuses in rules if applies for status in statuses}


def _require_tags(node: Any, schemas: dict[str, Any]) -> None:
    """What tells the members of a union apart has a default in each, and must be sent all the same."""
    if isinstance(node, list):
        for item in node:
            _require_tags(item, schemas)
    elif isinstance(node, dict):
        tag = node.get("discriminator")
        if isinstance(tag, dict) and "mapping" in tag:
            for member in tag["mapping"].values():
                required = schemas[member.rpartition("/")[2]].setdefault("required", [])
                required[:0] = [] if tag["propertyName"] in required else [tag["propertyName"]]
        _require_tags(list(node.values()), schemas)


def _name(status: int) -> str:
    return f"Error{status}"


def _answer(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ErrorView"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _schemas_of_errors() -> dict[str, Any]:
    schema = ErrorView.model_json_schema(ref_template="#/components/schemas/{model}")
    inner: dict[str, Any] = schema.pop("$defs")
    return {"ErrorView": schema, **inner}
