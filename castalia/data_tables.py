"""What is known of a file's rows, drawn for a terminal.

A file's text is shown as text: no markup of the terminal's is taken from it, and what cannot be printed is
escaped.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from core.data.histogram import Histogram, Places
    from core.data.preview import Preview, Segment, ShownSide

BAR_CELLS = 40
TRAINED = "trained"


def preview_tables(shown: "Preview") -> Iterator[RenderableType]:
    """A heading and a table for each side of a row."""
    yield Text(f"line {shown.line}: a {shown.shape} row for the objective {shown.objective}")
    for side in shown.sides:
        yield _side_table(side)
    if shown.item:
        yield Text(f"item, for graders: {printable(json.dumps(shown.item, ensure_ascii=False))}")


def histogram_table(found: "Histogram") -> Table:
    """Rows by their length in tokens; buckets double."""
    drawn = Table("tokens", "rows", "")
    drawn.columns[0].justify = drawn.columns[1].justify = "right"
    buckets = found.lengths.buckets()
    most = max((bucket.rows for bucket in buckets), default=0)
    for bucket in buckets:
        cells = -(-bucket.rows * BAR_CELLS // most)
        drawn.add_row(f"{bucket.shortest:,}-{bucket.longest:,}", f"{bucket.rows:,}", "█" * cells)
    return drawn


def histogram_words(found: "Histogram") -> Iterator[str]:
    """The same in sentences, with what will not be trained as it stands."""
    yield (
        f"{found.rows:,} rows, {found.tokens:,} tokens, {found.trained_tokens:,} of them trained; "
        f"the longest row has {found.longest:,} tokens (line {found.longest_line})"
    )
    if found.context_length is not None:
        over = _places(found.over_context)
        yield f"rows over the context of {found.context_length:,} tokens: {over}"
    yield f"rows with nothing to train on: {_places(found.without_target)}"


def printable(text: str) -> str:
    """``text`` with every character that could steer a terminal escaped; newlines stay."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _side_table(side: "ShownSide") -> Table:
    title = f"{side.name}: {side.tokens:,} tokens, {side.trained_tokens:,} trained"
    drawn = Table("tokens", "", "text", title=Text(title), title_justify="left", show_lines=True)
    drawn.columns[0].justify = "right"
    start = 0
    for segment in side.segments:
        end = start + len(segment.input_ids) + segment.omitted
        mark = Text(TRAINED if segment.trained else "", style="bold green")
        drawn.add_row(f"{start:,}-{end - 1:,}", mark, _words(segment))
        start = end
    return drawn


def _words(segment: "Segment") -> Text:
    if segment.omitted:
        return Text(f"… {segment.omitted:,} tokens are not shown …", style="dim")
    return Text(printable(segment.text), style="bold green" if segment.trained else "")


def _places(places: "Places") -> str:
    if not places.count:
        return "none"
    lines = ", ".join(map(str, places.lines))
    more = ", …" if places.count > len(places.lines) else ""
    return f"{places.count:,} (lines {lines}{more})"
