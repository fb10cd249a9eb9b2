"""A proxy that breaks the answer to a client's first try, after the service has carried it out.

    python breaking_proxy.py PORT_OF_THE_SERVICE        prints its own port

The header `x-break` says how: `500` answers with one, `cut` ends the connection without an answer, `hang`
says nothing until the client has hung up. A try that is not the first, by the client's own count, passes.
"""

import select
import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 60
NOT_PASSED_ON = ("connection", "content-length", "transfer-encoding")


class Handler(BaseHTTPRequestHandler):
    """Pass a request on, and its answer back, or not."""

    protocol_version = "HTTP/1.1"
    upstream: int

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        upstream = HTTPConnection("127.0.0.1", self.upstream, timeout=PATIENCE_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        upstream.request("POST", self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        first = self.headers.get("x-stainless-retry-count", "0") == "0"
        how = self.headers.get("x-break") if first else None
        if how == "hang":
            select.select([self.connection], [], [], PATIENCE_S)
        if how in {"hang", "cut"}:
            self.close_connection = True
        elif how == "500":
            self._answer(500, {}, b"{}")
        else:
            self._answer(answer.status, dict(answer.getheaders()), content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Handler.upstream = int(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
