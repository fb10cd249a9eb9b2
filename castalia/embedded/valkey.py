"""The embedded Valkey: a broker that keeps nothing, on loopback, behind a password.

The one idea: nothing in it is worth saving (the database owns the state), so persistence is off
and it stops at once. The password reaches it through a 0600 configuration file, for a command
line is readable by every user of the machine.
"""

import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

from castalia.child import Child
from castalia.embedded.binaries import find_valkey
from castalia.embedded.secret import make_secret, read_secret, write_private

HOST = "127.0.0.1"
_READY = b"+OK\r\n+PONG\r\n"


@dataclass(frozen=True, slots=True)
class ValkeyServer:
    """A Valkey on 127.0.0.1:`port` that works in `data_dir`. Call `prepare()` first."""

    data_dir: Path
    port: int
    program: Path = field(default_factory=find_valkey)

    @property
    def password_file(self) -> Path:
        """Where the password is kept, mode 0600."""
        return self.data_dir / "password"

    @property
    def config_file(self) -> Path:
        """What hands the password to the server, mode 0600."""
        return self.data_dir / "valkey.conf"

    def prepare(self) -> None:
        """Make the folder, the password and the configuration file; OSError from the disk."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_secret(self.password_file)
        write_private(self.config_file, f"requirepass {read_secret(self.password_file)}\n")

    def argv(self) -> tuple[str, ...]:
        """Return the foreground command; SIGTERM ends it."""
        network = ("--port", str(self.port), "--bind", HOST)
        storage = ("--dir", str(self.data_dir), "--save", "", "--appendonly", "no")
        return (str(self.program), str(self.config_file), *network, *storage)

    @property
    def url(self) -> str:
        """The Redis URL of database 0, password included."""
        return f"redis://:{read_secret(self.password_file)}@{HOST}:{self.port}/0"

    def ready(self) -> bool:
        """Tell whether it takes the password and answers a ping within a second."""
        hello = f"AUTH {read_secret(self.password_file)}\r\nPING\r\n".encode()
        try:
            with socket.create_connection((HOST, self.port), timeout=1.0) as connection:
                connection.sendall(hello)
                answer = connection.makefile("rb").read(len(_READY))
        except OSError:
            return False
        return answer == _READY

    def child(self) -> Child:
        """Return what the supervisor runs."""
        return Child(
            name="valkey",
            argv=self.argv(),
            ready=self.ready,
            where=f"{HOST}:{self.port}",
            stop_signal=signal.SIGTERM,
            stop_grace_s=5.0,
        )
