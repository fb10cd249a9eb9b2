"""Downloads that survive a cut line: they go on where they stopped, and end with a hash that fits.

What has arrived lies in NAME.partial; only a file whose SHA-256 is the service's gets its name.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from castalia.client import Client, ServiceUnreachableError
from castalia.errors import CastaliaError

TRIES_WITHOUT_PROGRESS = 5


class HashMismatchError(CastaliaError):
    """What arrived is not what the service holds."""


def download(
    client: Client, file_id: str, target: Path, sha256: str, arrived: Callable[[int], None]
) -> None:
    """Fetch a file to ``target``; ``arrived`` is told the number of bytes as they come.

    A cut connection is taken up again, also by a later call. Raises HashMismatchError.
    """
    if target.exists() and _sha256(target) == sha256:
        arrived(target.stat().st_size)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    if partial.exists():
        arrived(partial.stat().st_size)
    tries = 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        try:
            _append(client, file_id, partial, sha256, arrived)
            break
        except ServiceUnreachableError:
            progress = partial.exists() and partial.stat().st_size > before
            tries = 0 if progress else tries + 1
            if tries == TRIES_WITHOUT_PROGRESS:
                raise
    if _sha256(partial) != sha256:
        partial.unlink()
        raise HashMismatchError(f"{target.name} arrived damaged", "run the command again")
    partial.rename(target)


def _append(
    client: Client, file_id: str, partial: Path, sha256: str, arrived: Callable[[int], None]
) -> None:
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # a position in the file is one in what arrives
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": f'"{sha256}"'}
    size = client.get(f"/files/{file_id}")["bytes"]
    if start >= size > 0:
        return
    with client.stream(f"/files/{file_id}/content", headers) as answer:
        goes_on = answer.status_code == 206  # noqa: PLR2004 - partial content
        with partial.open("ab" if goes_on else "wb") as file:
            for chunk in answer.iter_bytes():
                file.write(chunk)
                arrived(len(chunk))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
