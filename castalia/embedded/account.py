"""Under which account Postgres runs when castalia itself runs as root.

The one idea: the owner of the data folder decides. Postgres refuses to be root, so

- an ordinary user runs it as herself: no prefix;
- as root on a folder of root, `unshare` maps root to nobody in a new user namespace: the files
  stay root's own, no folder has to be opened to others;
- as root on another account's folder, `setpriv` drops to that account;
- as root where user namespaces are forbidden (many containers), the folder is given to nobody
  once, and from then on the line above holds. The folder above it, castalia's own, is then made
  traversable (mode +x, not readable) for others; folders further up are never touched.
"""

import functools
import os
import shutil
from pathlib import Path

from castalia.embedded.command import run_command
from castalia.errors import CannotLeaveRootError

NOBODY = 65534
UNSHARE = ("unshare", "-U", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--")


def claim(folder: Path) -> None:
    """Let an account other than root run in `folder`; raises CannotLeaveRootError."""
    if os.geteuid() != 0 or (folder.stat().st_uid == 0 and user_namespaces_work()):
        return
    if folder.stat().st_uid == 0:
        _give(folder, NOBODY, NOBODY)
    if not _enters(folder):
        folder.parent.chmod(folder.parent.stat().st_mode | 0o011)
        if not _enters(folder):
            raise CannotLeaveRootError(f"a folder above {folder} is closed to others")


def prefix(folder: Path) -> tuple[str, ...]:
    """Return the words before a command that is to run as the account of a claimed folder."""
    owner = folder.stat()
    if os.geteuid() != 0:
        return ()
    if owner.st_uid == 0:
        return UNSHARE
    if shutil.which("setpriv") is None:
        raise CannotLeaveRootError("neither user namespaces nor setpriv")
    return (
        "setpriv",
        f"--reuid={owner.st_uid}",
        f"--regid={owner.st_gid}",
        "--clear-groups",
        "--no-new-privs",
        "--",
    )


def hand_to_owner(path: Path) -> None:
    """Give a file that root made in somebody's folder to that somebody."""
    owner = path.parent.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)


@functools.cache
def user_namespaces_work() -> bool:
    """Tell whether this kernel lets us map root to nobody; asked once by doing it."""
    if shutil.which("unshare") is None:
        return False
    return run_command([*UNSHARE, "true"]).succeeded


def _enters(folder: Path) -> bool:
    return run_command([*prefix(folder), "test", "-x", str(folder)]).succeeded


def _give(folder: Path, uid: int, gid: int) -> None:
    os.chown(folder, uid, gid)
    for path in folder.rglob("*"):
        os.chown(path, uid, gid, follow_symlinks=False)
