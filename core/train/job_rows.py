"""The rows of a job's files, and what its user is told of them: each file is read once."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from core.data.duplicates import SharedRows, shared_rows
from core.spec.file_read import FileRead, LengthBucket
from core.spec.job import JobSpec
from core.train.cache import CachePlace, RowCache
from core.train.inputs import read_rows_of
from core.train.journal import Journal
from core.train.lessons import FileRows, Rows

Param = Literal["training_file", "validation_file"]


def rows_of_job(
    spec: JobSpec,
    beside: Path,
    tokenizer: PreTrainedTokenizerBase,
    journal: Journal,
    place: CachePlace | None,
) -> tuple[list[Any], list[Any], list[FileRead]]:
    """The rows to train on, those that are only measured, and what each file held.

    What was cut or dropped, and what stands in both files, is noted. ``place``: where rows are kept for other
    runs, None: nowhere. Raises RunFailure.
    """
    cache = _opened(place, tokenizer, journal)
    params: list[Param] = ["training_file"]
    if spec.validation_file is not None:
        params.append("validation_file")
    found: dict[Param, FileRows] = {}
    for param in params:
        found[param] = read_rows_of(spec, param, beside, tokenizer, cache)
        _tell(spec, param, found[param].read, journal)
    training, *validation = found.values()
    for other in validation:
        _tell_shared(shared_rows(training.digests, other.digests), journal)
    held_out = [row for other in validation for row in other.read.rows]
    return training.read.rows, held_out, [_told(param, file) for param, file in found.items()]


def _opened(
    place: CachePlace | None, tokenizer: PreTrainedTokenizerBase, journal: Journal
) -> RowCache | None:
    if place is None:
        return None
    try:
        return RowCache(place, tokenizer, journal.note)
    except (OSError, ValueError, NotImplementedError) as error:
        journal.note(
            "rows.not_cached", f"rows are not kept: the tokenizer cannot be saved: {error}"
        )
        return None


def _told(param: Param, file: FileRows) -> FileRead:
    report = file.read.report
    return FileRead(
        param=param,
        rows=report.kept,
        tokens=report.tokens,
        trained_tokens=report.targets,
        longest=report.longest,
        lengths=[LengthBucket(**asdict(bucket)) for bucket in file.read.lengths.buckets()],
        cached=file.cached,
    )


def _tell(spec: JobSpec, param: str, found: Rows, journal: Journal) -> None:
    """Tell what became of rows that were too long, and of those that were packed."""
    report = found.report
    if report.dropped or report.truncated or report.split or report.without_target:
        journal.note(
            "rows.changed",
            f"{param}: {report.kept} rows kept, {report.truncated} truncated, {report.split} split, "
            f"{report.dropped} dropped, {report.without_target} without a trained token",
            param=param,
            kept=report.kept,
            truncated=report.truncated,
            split=report.split,
            dropped=report.dropped,
            without_target=report.without_target,
        )
    if len(found.rows) < report.kept:
        assert spec.trainer.context_length is not None, "a resolved spec has one"
        filled = sum(map(len, found.rows)) / (len(found.rows) * spec.trainer.context_length)
        journal.note(
            "rows.packed",
            f"{param}: {report.kept} rows stand in {len(found.rows)} of at most "
            f"{spec.trainer.context_length} tokens, of which {filled:.1%} are filled",
            level="info",
            param=param,
            rows=report.kept,
            packed=len(found.rows),
            filled=round(filled, 4),
        )


def _tell_shared(shared: SharedRows, journal: Journal) -> None:
    if shared.count:
        pairs = ", ".join(f"{line} = {other}" for line, other in shared.pairs)
        journal.note(
            "rows.in_both_files",
            f"{shared.count} rows of the training file stand in the validation file too, which then "
            f"measures what was memorised; lines {pairs}",
            rows=shared.count,
        )
