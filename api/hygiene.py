"""What every answer says to a browser, and what of a request may stand in a line of a log or a message.

An answer is data for one client: no page may frame it, run it or keep it. What somebody sent is shown
percent-encoded and cut, so it can neither end the line nor hold a key.
"""

import re
from urllib.parse import quote

from starlette.types import Scope

from core.store.keys import SECRET_PREFIX

SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""Set where an answer does not say otherwise itself."""

PAGES = frozenset({"/docs", "/redoc"})
PAGES_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; connect-src 'self'; "
    "script-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'unsafe-inline' https://cdn.jsdelivr.net; "
    "img-src data: https://fastapi.tiangolo.com; worker-src blob:"
)
"""The pages are FastAPI's: inline code, and the rest from where FastAPI takes it."""

LONGEST_SHOWN = 200
A_SECRET = re.compile(re.escape(SECRET_PREFIX) + r"[\w-]*")


def without_secrets(text: str) -> str:
    """``text`` with what looks like a key cut out."""
    return A_SECRET.sub(f"{SECRET_PREFIX}…", text)


def shown_path(scope: Scope) -> str:
    """The path of a request in one line of ASCII, cut, without the query and without keys."""
    path = quote(scope["path"], safe="/:@,;=+$&'()*!~", errors="backslashreplace")
    return without_secrets(path)[:LONGEST_SHOWN]


def disposition(filename: str) -> str:
    """A Content-Disposition (RFC 6266) that saves under ``filename``, whatever stands in it.

    The plain form is for readers that know no other: its last part alone, and what could end it replaced.
    """
    plain = re.sub(r"[^\w. -]", "_", filename.rpartition("/")[2], flags=re.ASCII)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
