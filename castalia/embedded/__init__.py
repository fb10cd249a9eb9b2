"""The servers that castalia brings along: a Postgres and a Valkey, each in a folder of its own.

The one idea: a server is a value (folder and port). `prepare()` makes its folder fit to start,
`child()` is the foreground process that the supervisor runs, `url` is where the rest of castalia
finds it. Nothing here starts or stops a server of its own.
"""

from castalia.embedded.postgres import PostgresServer
from castalia.embedded.valkey import ValkeyServer

__all__ = ["PostgresServer", "ValkeyServer"]
