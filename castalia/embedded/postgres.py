"""The embedded Postgres: one cluster in one folder, on loopback, behind a password.

The one idea: the cluster is made aside and renamed, so `cluster/` is whole or absent; what a
crash left of a half-made one is swept away and made again. The folder holds

    password      0600, made once; the role is `app`
    cluster/      PGDATA
    cluster.new/  only while initdb runs
    socket/       the Unix socket, when its path is short enough for the kernel
"""

import os
import re
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

from castalia.child import Child
from castalia.embedded import account
from castalia.embedded.binaries import find_postgres
from castalia.embedded.command import run_command
from castalia.embedded.former import clear_former
from castalia.embedded.secret import make_secret, read_secret
from castalia.errors import ChildCannotStartError, ClusterNotMadeError, ClusterUnusableError

ROLE = "app"
DATABASE = "postgres"
HOST = "127.0.0.1"
# The kernel takes 107 bytes on Linux and 103 on macOS.
LONGEST_SOCKET_PATH = 100
ANSWER_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A Postgres on 127.0.0.1:`port` with its data in `data_dir`; `binaries` holds its programs.

    Call `prepare()` first; the caller must hold the lock of the data folder.
    """

    data_dir: Path
    port: int
    binaries: Path = field(default_factory=find_postgres)

    @property
    def cluster(self) -> Path:
        """PGDATA, whole or absent."""
        return self.data_dir / "cluster"

    @property
    def password_file(self) -> Path:
        """Where the password of the role is kept, mode 0600."""
        return self.data_dir / "password"

    def prepare(self) -> None:
        """Make the cluster if need be and clear what a former Postgres left.

        Raises ClusterUnusableError, ClusterNotMadeError, CannotLeaveRootError,
        ChildCannotStartError (the programs do not run) or PostmasterStuckError.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        account.claim(self.data_dir)
        version = self._binary_version()
        if not self.cluster.exists():
            make_secret(self.password_file)
            self._make_cluster()
        self._check_cluster(version)
        self._make_socket_dir()
        clear_former(self.cluster)

    def argv(self) -> tuple[str, ...]:
        """Return the foreground command; SIGINT ends it fast and cleanly."""
        sockets = str(self._socket_dir or "")
        listen = ("-h", HOST, "-p", str(self.port), "-k", sockets)
        return (*self._program("postgres"), "-D", str(self.cluster), *listen)

    @property
    def url(self) -> str:
        """The SQLAlchemy URL, password included."""
        secret = read_secret(self.password_file)
        return f"postgresql+psycopg://{ROLE}:{secret}@{HOST}:{self.port}/{DATABASE}"

    def ready(self) -> bool:
        """Tell whether it answers a query; a stranger on the port would not know the password."""
        command = [str(self.binaries / "psql"), "-X", "-h", HOST, "-p", str(self.port)]
        command += ["-U", ROLE, "-d", DATABASE, "-c", "select 1"]
        secret = read_secret(self.password_file)
        settings = {"PGPASSWORD": secret, "PGCONNECT_TIMEOUT": "2", "PGSSLMODE": "disable"}
        return run_command(command, env=settings, limit_s=ANSWER_LIMIT_S).succeeded

    def child(self) -> Child:
        """Return what the supervisor runs."""
        return Child(
            name="postgres",
            argv=self.argv(),
            ready=self.ready,
            where=f"{HOST}:{self.port}",
            stop_signal=signal.SIGINT,
            stop_grace_s=30.0,
        )

    def _program(self, name: str) -> tuple[str, ...]:
        return (*account.prefix(self.data_dir), str(self.binaries / name))

    @property
    def _socket_dir(self) -> Path | None:
        """None where the path is too long; a comma would be read as two folders."""
        folder = self.data_dir / "socket"
        path = os.fsencode(folder / f".s.PGSQL.{self.port}")
        return None if len(path) > LONGEST_SOCKET_PATH or b"," in path else folder

    def _make_socket_dir(self) -> None:
        if self._socket_dir is not None and not self._socket_dir.exists():
            self._socket_dir.mkdir(mode=0o700)
            account.hand_to_owner(self._socket_dir)

    def _binary_version(self) -> str:
        shown = run_command([*self._program("postgres"), "--version"])
        found = re.search(r"\d+", shown.output)
        if not shown.succeeded or found is None:
            raise ChildCannotStartError("postgres", str(self.binaries), shown.complaint)
        return found.group()

    def _make_cluster(self) -> None:
        aside = self.data_dir / "cluster.new"
        shutil.rmtree(aside, ignore_errors=True)
        command = [*self._program("initdb"), "-D", str(aside), "-U", ROLE]
        command += ["--auth=scram-sha-256", f"--pwfile={self.password_file}"]
        command += ["--encoding=UTF8", "--locale=C"]
        made = run_command(command, cwd=self.data_dir)
        if not made.succeeded:
            raise ClusterNotMadeError(self.cluster, made.complaint)
        aside.rename(self.cluster)

    def _check_cluster(self, version: str) -> None:
        try:
            found = (self.cluster / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            remedy = "restore it from a backup, or move it away to begin afresh"
            raise ClusterUnusableError(self.cluster, "PG_VERSION is missing", remedy) from None
        if found != version:
            reason = f"it is of PostgreSQL {found}, the programs are {version}"
            remedy = f"put PostgreSQL {found} back, or carry the data over with pg_upgrade"
            raise ClusterUnusableError(self.cluster, reason, remedy)
        if not self.password_file.exists():
            remedy = f"put {self.password_file} back, or move the cluster away to begin afresh"
            raise ClusterUnusableError(self.cluster, "its password file is lost", remedy)
