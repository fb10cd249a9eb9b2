"""A base model from a hub, at one commit, into the models folder: safetensors, and nothing that runs.

The one idea: a model is known by its commit, so what lies in a folder of that name never changes. Files are
fetched aside, checked against the hub's sizes and hashes, and the folder appears when it is whole.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from castalia.errors import CastaliaError
from core.models.catalog import ModelUnusable, facts_of
from core.store.settings import PINNED

ENDPOINT = "https://huggingface.co"
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
WEIGHTS = ".safetensors"
BESIDE = (".json", ".txt", ".model", ".jinja")
ASIDE = ".partial"
READ_BYTES = 2**20
Told = Callable[[str, int], None]
"""Is told the name of a file and how many bytes have come since it was last told."""


class NotPinnedError(CastaliaError):
    """A name without a commit."""


class HubError(CastaliaError):
    """The hub cannot be reached, or does not have what is asked for."""


class HubModelRefusedError(CastaliaError):
    """A model that could not be trained here."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a model; of large ones the hub knows the SHA-256."""

    name: str
    bytes: int | None
    sha256: str | None


def pull(name: str, models: Path, told: Told) -> Path:
    """The folder of the model ``ORGANISATION/NAME@COMMIT`` below ``models``, fetched unless it is there.

    HF_ENDPOINT and HF_TOKEN say where, and as whom. Raises CastaliaError.
    """
    if PINNED.fullmatch(name) is None:
        raise NotPinnedError(
            f"'{name}' is not pinned to a commit", "write ORGANISATION/NAME@ and its 40 hex digits"
        )
    target = models / name
    if target.exists():
        return target
    repository, _, commit = name.partition("@")
    aside = models / ASIDE / name
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    with _client() as client:
        files = sorted(_wanted(client, repository, commit), key=lambda f: f.name.endswith(WEIGHTS))
        for number, file in enumerate(files):
            if file.name.endswith(WEIGHTS) and not files[number - 1].name.endswith(WEIGHTS):
                _refuse_unusable(aside, name)
            _fetch(client, f"/{repository}/resolve/{commit}/{file.name}", file, aside, told)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside.rename(target)
    return target


def _client() -> httpx.Client:
    token = os.environ.get("HF_TOKEN")
    return httpx.Client(
        base_url=os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/"),
        headers={"authorization": f"Bearer {token}"} if token else {},
        timeout=TIMEOUT,
        follow_redirects=True,
    )


def _wanted(client: httpx.Client, repository: str, commit: str) -> Iterator[HubFile]:
    """What a model is loaded from; a name that is a path is none of it. Weights are there."""
    listed = _asked(client, f"/api/models/{repository}/revision/{commit}?blobs=true")
    found = [_described(entry) for entry in listed["siblings"]]
    plain = [file for file in found if "/" not in file.name and not file.name.startswith(".")]
    weights = [file for file in plain if file.name.endswith(WEIGHTS)]
    if not weights:
        names = ", ".join(file.name for file in plain) or "nothing"
        raise HubModelRefusedError(
            f"{repository} has no safetensors weights at this commit (it has {names})",
            "take a revision that has them; pickles are never loaded",
        )
    yield from weights
    yield from (file for file in plain if file.name.endswith(BESIDE))


def _described(entry: dict[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    return HubFile(entry["rfilename"], entry.get("size"), large.get("sha256"))


def _asked(client: httpx.Client, path: str) -> Any:
    try:
        answer = client.get(path)
        answer.raise_for_status()
        return answer.json()
    except httpx.HTTPStatusError as error:
        raise _refused(error) from error
    except (httpx.TransportError, ValueError) as error:
        raise HubError(
            f"{client.base_url} cannot be reached ({error})", "set HF_ENDPOINT"
        ) from error


def _fetch(client: httpx.Client, path: str, file: HubFile, folder: Path, told: Told) -> None:
    seen, count = hashlib.sha256(), 0
    try:
        with client.stream("GET", path) as answer, (folder / file.name).open("wb") as out:
            answer.raise_for_status()
            for piece in answer.iter_bytes(READ_BYTES):
                out.write(piece)
                seen.update(piece)
                count += len(piece)
                told(file.name, len(piece))
    except httpx.HTTPStatusError as error:
        raise _refused(error) from error
    except httpx.TransportError as error:
        raise HubError(f"{file.name} was cut off ({error})", "pull the model again") from error
    if file.bytes not in (None, count) or file.sha256 not in (None, seen.hexdigest()):
        raise HubError(f"{file.name} is not what the hub says it is", "pull the model again")


def _refuse_unusable(folder: Path, name: str) -> None:
    """Before the weights are fetched, which are most of it."""
    try:
        facts_of(folder, name)
    except (ModelUnusable, OSError) as error:
        raise HubModelRefusedError(str(error), "choose another model") from error


def _refused(error: httpx.HTTPStatusError) -> HubError:
    status, url = error.response.status_code, error.request.url
    remedy = "set HF_TOKEN" if status in (401, 403) else "check the name and the commit"
    return HubError(f"{url} answered {status}", remedy)
