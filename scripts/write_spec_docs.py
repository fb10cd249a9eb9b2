"""Write docs/spec.md from the spec's own JSON Schema, so that the page cannot say anything else.

python scripts/write_spec_docs.py            # or `make docs`
"""

import json
from pathlib import Path
from typing import Any

from core.spec.job import JobSpec

PAGE = Path(__file__).parent.parent / "docs" / "spec.md"
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
HEAD = """# The job spec

What a job is, with every default. `castalia train` takes it as a file; in the API its `trainer` part is the
object of that name, and the rest are OpenAI's own fields. The JSON Schema is served at
`GET /v1/trainer/schema`. Unknown keys are refused with their path. Made by `make docs`; do not edit.

```json
{example}
```
"""


def page() -> str:
    """The whole page."""
    schema = JobSpec.model_json_schema()
    example = JobSpec(model="SmolLM2-135M-Instruct", training_file="train.jsonl")
    shown = json.dumps(example.model_dump(mode="json"), indent=2)
    parts = [HEAD.format(example=shown), section("JobSpec", schema)]
    parts += [section(name, node) for name, node in schema["$defs"].items()]
    return "\n".join(parts)


def section(name: str, node: dict[str, Any]) -> str:
    """One object: its docstring and a table of its fields."""
    rows = [row(field, facts) for field, facts in node["properties"].items()]
    table = "\n".join(["| field | type | default | |", "|---|---|---|---|", *rows])
    return f"\n## {name}\n\n{node.get('description', '')}\n\n{table}"


def row(field: str, facts: dict[str, Any]) -> str:
    """One field as a row of a table."""
    default = facts.get("default", "required")
    shown = "" if isinstance(default, dict) else f"`{json.dumps(default)}`"
    shown = "required" if default == "required" else shown
    text = facts.get("description", "").replace("\n", " ")
    return f"| `{field}` | {kind(facts)} | {shown} | {text} |"


def kind(facts: dict[str, Any]) -> str:
    """A type with its bounds, in words."""
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in facts:
            return " or ".join(kind(member) for member in facts[union])
    if "const" in facts:
        return f"`{json.dumps(facts['const'])}`"
    if "enum" in facts:
        return " or ".join(f"`{json.dumps(value)}`" for value in facts["enum"])
    bounds = [f"{sign} {facts[key]}" for key, sign in BOUNDS.items() if key in facts]
    return " ".join([facts["type"], ", ".join(bounds)]).strip()


if __name__ == "__main__":
    PAGE.write_text(page() + "\n")
