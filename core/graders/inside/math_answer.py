"""Whether an answer is the same quantity as the reference, by math-verify.

Its own time limits are switched off: they need signals, and the process that runs this is timed.
"""

from typing import Any

from core.graders.inside.library import explained, library


class MathAnswer:
    """The job: payload ``input`` and ``reference``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        assert not settings, "math has no settings"

    def prepare(self) -> None:
        """Import math-verify and, by comparing two polynomials, what sympy imports only when asked."""
        pair = {"input": "$x^2 + 2x + 1$", "reference": "(x+1)^2"}
        assert self.run(pair) == 1.0, "math-verify does not know that (x+1)^2 is x^2 + 2x + 1"

    def run(self, payload: dict[str, Any]) -> float:
        """1 if the two are equal, 0 if not or where ``input`` holds no answer."""
        reference = payload["reference"]
        wanted = self._read(reference) + self._read(f"${reference}$")
        if not wanted:
            raise ValueError(f"the reference {reference[:80]!r} is no mathematics")
        answer = self._read(payload["input"])
        verify = library("math_verify").verify
        return float(any(verify([one], answer, timeout_seconds=None) for one in wanted))

    def explain(self, error: BaseException) -> str:
        """The library's own words."""
        return explained(error)

    def _read(self, text: str) -> list[Any]:
        return list(library("math_verify").parse(text, parsing_timeout=None))
