"""A thin client of the HTTP API: where the service is, who is asking, and errors of one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

import httpx

from castalia.errors import CastaliaError

DEFAULT_URL = "http://127.0.0.1:8000"
LOCAL_KEY = Path("castalia-data/secrets/api_key")
TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class ServiceUnreachableError(CastaliaError):
    """Nobody answers at the URL."""

    exit_code = 3


class RefusedError(CastaliaError):
    """The service answered with an error."""


class NoKeyError(CastaliaError):
    """No API key was given and none lies where `castalia up` would have put it."""

    exit_code = 2


class Client:
    """Requests to one service with one key. Every failure is a CastaliaError. Closed by `with`."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self.url}/v1", timeout=TIMEOUT, headers={"Authorization": f"Bearer {key}"}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        """The decoded answer of GET."""
        return self._json("GET", path, params=params)

    def post(self, path: str, body: Any = None) -> Any:
        """The decoded answer of POST with a JSON body."""
        return self._json("POST", path, json=body)

    def upload(self, path: Path, purpose: str) -> Any:
        """Send a file, streamed; the File object."""
        with path.open("rb") as file:
            files = {"file": (path.name, file, "application/octet-stream")}
            return self._json("POST", "/files", data={"purpose": purpose}, files=files)

    @contextmanager
    def stream(self, path: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """The answer of GET as a stream, already known to be no error."""
        try:
            with self._http.stream("GET", path, headers=headers) as answer:
                if not answer.is_success:
                    answer.read()
                    _refuse(answer)
                yield answer
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _json(self, method: str, path: str, **request: Any) -> Any:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            _refuse(answer)
        try:
            return answer.json()
        except ValueError:
            _refuse(answer)

    def _unreachable(self, error: httpx.TransportError) -> ServiceUnreachableError:
        return ServiceUnreachableError(
            f"{self.url} cannot be reached ({error})",
            "start it with `castalia up`, or set CASTALIA_URL",
        )


def open_client() -> Client:
    """The client for CASTALIA_URL and CASTALIA_API_KEY; the key of a local `castalia up` is found.

    Raises NoKeyError.
    """
    key = os.environ.get("CASTALIA_API_KEY")
    if key is None and LOCAL_KEY.exists():
        key = LOCAL_KEY.read_text().strip()
    if key is None:
        raise NoKeyError(
            "there is no API key", "set CASTALIA_API_KEY; `castalia keys create` makes one"
        )
    return Client(os.environ.get("CASTALIA_URL", DEFAULT_URL), key)


def _refuse(answer: httpx.Response) -> NoReturn:
    try:
        error = answer.json()["error"]
        message, hint = error["message"], error.get("hint") or f"code {error['code']}"
    except (ValueError, KeyError, TypeError):
        message, hint = f"HTTP {answer.status_code}", f"is {answer.url} a Castalia service?"
    raise RefusedError(message, hint)
