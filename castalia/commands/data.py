"""`castalia data`: a file looked at before anything is trained on it, without any service."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from castalia.commands.files import NoSuchFileError
from castalia.commands.train import TorchMissingError
from castalia.errors import CastaliaError

if TYPE_CHECKING:
    from core.data.histogram import Histogram
    from core.data.report import Report

app = typer.Typer(help="Look at a training file.", no_args_is_help=True)

READ_BYTES = 2**20
WIDTH = 100
ObjectiveName = Literal["pretrain", "sft", "dpo", "grpo"]
File = Annotated[Path, typer.Argument(help="A training file, of any shape that can be uploaded.")]
Objective = Annotated[
    ObjectiveName | None, typer.Option(help="As in a spec; default: the usual one of the rows.")
]
TrainOn = Annotated[
    Literal["assistant", "all"], typer.Option(help="As in a spec, for the objective sft.")
]
Template = Annotated[
    Path | None, typer.Option(help="A file with a chat template, in place of the model's own.")
]


class BadDataError(CastaliaError):
    """A file or a row that cannot be trained on."""


@app.command()
def check(
    file: File,
    model: Annotated[Path | None, typer.Option(help="Count in the tokens of this model.")] = None,
    context: Annotated[
        int | None, typer.Option(min=2, help="Tell rows of more tokens; default: the model's.")
    ] = None,
    objective: Objective = None,
    train_on: TrainOn = "assistant",
    chat_template: Template = None,
) -> None:
    """Say what is wrong with FILE and how to mend it; with --model, how long its rows are."""
    from castalia.data_tables import histogram_table, histogram_words
    from core.data.check import check_rows
    from core.data.histogram import Histogram

    report = check_rows(_pieces(file))
    console = Console(width=WIDTH)
    for problem in (*report.problems, *report.warnings):
        console.print(str(problem), markup=False, highlight=False, soft_wrap=True)
    console.print(f"{file}: {_counts(report)}", markup=False, highlight=False, soft_wrap=True)
    if not report.ok:
        raise BadDataError(f"{file} cannot be trained on", "mend the rows above")
    if model is not None:
        counter = Histogram(context or _longest_context(model))
        tokenizer = _tokenizer(model, chat_template)
        found = _counted(counter, file, tokenizer, objective, train_on)
        console.print(histogram_table(found))
        for line in histogram_words(found):
            console.print(line, highlight=False, soft_wrap=True)


@app.command()
def preview(
    file: File,
    model: Annotated[Path, typer.Option(help="A model's folder, or a hub id.")],
    line: Annotated[int | None, typer.Option(min=1, help="Default: the first row.")] = None,
    objective: Objective = None,
    train_on: TrainOn = "assistant",
    chat_template: Template = None,
) -> None:
    """Show a row of FILE in MODEL's tokens, with those that are trained marked."""
    from castalia.data_tables import preview_tables
    from core.data.parse import RowError
    from core.data.preview import NoRowError, row_at
    from core.data.preview import preview as previewed

    tokenizer = _tokenizer(model, chat_template)
    try:
        row = row_at(_pieces(file), line)
        shown = previewed(row, tokenizer, objective=objective, train_on=train_on)
    except NoRowError as error:
        raise BadDataError(f"{file}: {error}", "give another --line") from error
    except (ValueError, RowError) as error:
        raise BadDataError(f"{file}: {error}", "see `castalia data check`") from error
    console = Console(width=WIDTH)
    for part in preview_tables(shown):
        console.print(part)


def _counted(
    found: "Histogram",
    file: Path,
    tokenizer: Any,
    objective: ObjectiveName | None,
    train_on: Literal["assistant", "all"],
) -> "Histogram":
    from core.data.parse import read_rows
    from core.data.sides import sides_of

    try:
        for row in read_rows(_pieces(file)):
            sides = sides_of(row, tokenizer, objective=objective, train_on=train_on)
            found.add(row.line, sides)
    except ValueError as error:
        raise BadDataError(f"{file}: {error}", "change the row, or --objective") from error
    return found


def _tokenizer(model: Path, chat_template: Path | None) -> Any:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    from core.models.load import load_tokenizer
    from core.spec.errors import RunFailure

    if chat_template is not None and not chat_template.is_file():
        raise NoSuchFileError(f"there is no file {chat_template}", "check --chat-template")
    template = None if chat_template is None else chat_template.read_text()
    try:
        return load_tokenizer(str(model), template)
    except RunFailure as failure:
        raise BadDataError(str(failure), failure.error.hint or "give another --model") from failure


def _longest_context(model: Path) -> int | None:
    from core.models.catalog import UnreadableModel, facts_of

    try:
        return facts_of(model, model.name).longest_context
    except (UnreadableModel, OSError):
        return None


def _pieces(file: Path) -> Iterator[bytes]:
    if not file.is_file():
        raise NoSuchFileError(f"there is no file {file}", "check the path")
    with file.open("rb") as opened:
        while piece := opened.read(READ_BYTES):
            yield piece


def _counts(report: "Report") -> str:
    shapes = ", ".join(f"{count} {shape}" for shape, count in report.shapes.items())
    counts = f"{report.rows} rows ({shapes})" if shapes else f"{report.rows} rows"
    return f"{counts}, {report.problem_count} problems, {report.duplicate_count} duplicates"
