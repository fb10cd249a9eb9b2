"""A line to a server on this machine that can be cut, delayed, half closed and refused.

The one idea: two threads a connection, one a direction, each of which looks at the proxy's `delay_s` before
it hands a piece on. TLS and protocols are none of its business.
"""

import contextlib
import socket
import threading
import time

HOST = "127.0.0.1"
PIECE_BYTES = 65_536


class Proxy:
    """Listens on `port` and hands everything on to `target`. `delay_s`: what each piece waits."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server((HOST, 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.port: int = self._listening.getsockname()[1]
        self.delay_s = 0.0
        self.refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection; new ones are taken."""
        for client, server in self._take_all():
            _shut(client, socket.SHUT_RDWR)
            _shut(server, socket.SHUT_RDWR)

    def half_close(self) -> None:
        """Tell every client that its server has no more to say; what it says itself still arrives."""
        with self._lock:
            clients = [client for client, _ in self._pairs]
        for client in clients:
            _shut(client, socket.SHUT_WR)

    def close(self) -> None:
        """No more lines."""
        _shut(self._listening, socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = None if self.refusing else socket.create_connection((HOST, self._target))
            except OSError:
                server = None
            if server is None:
                client.close()
            else:
                self._join(client, server)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._pairs.append((client, server))
        ends = threading.Barrier(2, action=lambda: self._bury(client, server))
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target, ends), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, ends: threading.Barrier) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                time.sleep(self.delay_s)
                target.sendall(piece)
        _shut(target, socket.SHUT_WR)
        ends.wait()

    def _bury(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._pairs.remove((client, server))
        client.close()
        server.close()

    def _take_all(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        return pairs


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        end.shutdown(how)
