"""One byte range of a download (RFC 9110, section 14), so that a cut download can go on where it stopped."""

import re
from dataclasses import dataclass

from api.errors import ApiError

ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [start, stop) of ``total``."""

    start: int
    stop: int
    total: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.start == 0 and self.stop == self.total

    @property
    def content_range(self) -> str:
        """The value of the Content-Range header."""
        return f"bytes {self.start}-{self.stop - 1}/{self.total}"


def asked_span(range_header: str | None, if_range: str | None, etag: str, total: int) -> Span:
    """The span that the headers ask for; what is not one byte range is answered with everything.

    Raises ApiError 416 for a range beyond the end.
    """
    whole = Span(0, total, total)
    if range_header is None or (if_range is not None and if_range != etag):
        return whole
    match = ONE_RANGE.fullmatch(range_header.strip())
    if match is None or not any(match.groups()):
        return whole
    first, last = match.groups()
    if not first:
        start, stop = max(total - int(last), 0), total
    else:
        start, stop = int(first), min(int(last) + 1, total) if last else total
    if start >= total or stop <= start:
        raise ApiError(
            416,
            f"the range '{range_header}' lies beyond the file's {total} bytes",
            code="range_not_satisfiable",
            param="Range",
            headers={"content-range": f"bytes */{total}"},
        )
    return Span(start, stop, total)
