"""One request, one answer: retries are the affair of whoever asks, who knows what may be asked twice."""

from typing import Any, Self

import httpx

ANSWER_LIMIT_S = 10.0
DESCRIPTION_LIMIT_S = 60.0
TOO_LATE = "invalid_job_state"
JOBS = "/fine_tuning/jobs"
RESUME = JOBS + "/{job_id}/resume"


class Unanswered(Exception):
    """Nobody answered, or the service could not just now."""


class Refused(Exception):
    """The service said no to what is right to ask."""


class Api:
    """Requests to the service, each tried once."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=f"{url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=ANSWER_LIMIT_S
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **words: Any) -> httpx.Response:
        """The answer: a yes, or a no because of what the job is by now. Raises Unanswered, Refused."""
        try:
            answer = self._http.request(method, path, **words)
        except httpx.TransportError as error:
            raise Unanswered(str(error)) from error
        if answer.is_server_error:
            raise Unanswered(f"{answer.status_code}")
        if answer.is_success or TOO_LATE in answer.text:
            return answer
        raise Refused(f"{method} {path}: {answer.status_code} {answer.text[:300]}")

    def get(self, path: str, **params: Any) -> Any:
        """The decoded answer of GET."""
        return self.ask("GET", path, params=params).json()

    def can_pause(self) -> bool:
        """Whether the API that is served knows how to pause and resume."""
        root = str(self._http.base_url).removesuffix("/v1/")
        with httpx.Client(base_url=root, timeout=DESCRIPTION_LIMIT_S) as client:
            paths = client.get("/openapi.json").json()["paths"]
        return f"/v1{RESUME}" in paths
