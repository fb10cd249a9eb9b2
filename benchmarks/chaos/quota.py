"""A folder for artifacts whose size is a limit: a file system in memory that can be made small for a while.

Where this process may not mount one, artifacts lie in Postgres and the limit cannot be reached; the report
says so. The mount lives in a mount namespace of ours (`python -m benchmarks.chaos` enters it), so it goes
with the last of our processes, however that ends.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOMY = "2g"
LEFT_BYTES = 100_000
"""Less than a checkpoint of the toy model, more than one of its smaller files."""
INSIDE = "CASTALIA_CHAOS_MOUNTS"


def enter_mount_namespace() -> None:
    """Start this program again where its mounts are its own, if that is allowed; else go on."""
    if os.environ.get(INSIDE) or not _succeeds("unshare", "--mount", "true"):
        return
    os.environ[INSIDE] = "own"
    command = ["unshare", "--mount", sys.executable, "-m", "benchmarks.chaos", *sys.argv[1:]]
    os.execvp(command[0], command)  # noqa: S606 - the same program


class Quota:
    """`folder` for artifacts; `limited` tells whether it has a size of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.limited = INSIDE in os.environ and _succeeds(
            "mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "chaos", str(folder)
        )

    @property
    def url(self) -> str:
        """For CASTALIA_ARTIFACTS_URL."""
        return f"file://{self.folder}" if self.limited else "postgres:"

    def objects(self) -> set[str]:
        """Names of what lies there."""
        return {path.name for path in self.folder.iterdir()}

    def fill(self) -> None:
        """Leave next to no room; nothing that is stored is lost."""
        used = shutil.disk_usage(self.folder).used
        self._resize(str(used + LEFT_BYTES))

    def empty(self) -> None:
        """Give the room back."""
        self._resize(ROOMY)

    def close(self) -> None:
        """Unmount; what still has a file open keeps it."""
        if self.limited:
            _succeeds("umount", "--lazy", str(self.folder))

    def _resize(self, size: str) -> None:
        command = ["mount", "-o", f"remount,size={size}", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own mount


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return not subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603
