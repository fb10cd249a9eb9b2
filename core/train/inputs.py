"""From the names in a spec to a model's folder and encoded rows."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from transformers import PreTrainedTokenizerBase

from core.data.conversation import ChatTemplateError
from core.data.digests import RowDigests
from core.data.fitness import UnfitRowError
from core.data.overlength import NothingToTrainError, OverlengthError
from core.data.parse import RowError, read_rows
from core.models.catalog import facts_of
from core.spec.errors import data_failure
from core.spec.job import JobSpec
from core.spec.model import ModelFacts
from core.spec.run import INPUTS_FOLDER
from core.train.cache import RowCache
from core.train.cache.key import content_digest
from core.train.lessons import FileRows, Reading, lesson_kind

if TYPE_CHECKING:
    from hashlib import _Hash

READ_BYTES = 2**20


def locate(name: str, beside: Path) -> Path:
    """The path that ``name`` stands for: below ``inputs/`` in the folder ``beside``, else as typed."""
    laid_out = beside / INPUTS_FOLDER / name
    return laid_out if laid_out.exists() else Path(name)


def model_source(name: str, beside: Path) -> str:
    """What the model is loaded from: a folder if there is one, else ``name`` as a hub id."""
    path = locate(name, beside)
    return str(path) if path.is_dir() else name


def model_facts(source: str, name: str) -> ModelFacts:
    """The facts of the model at ``source``, asking the hub for its configuration if need be."""
    folder = Path(source)
    if not folder.is_dir():
        from transformers.utils.hub import cached_file  # noqa: PLC0415 - the hub is rarely asked

        folder = Path(str(cached_file(source, "config.json"))).parent
    return facts_of(folder, name)


def read_rows_of(
    spec: JobSpec,
    param: str,
    beside: Path,
    tokenizer: PreTrainedTokenizerBase,
    cache: RowCache | None = None,
) -> FileRows:
    """The rows of the spec's ``param`` (training_file or validation_file), ready for its lesson.

    Of rows that ``cache`` holds no line is read; others are kept there. Raises RunFailure that names the line
    and the remedy.
    """
    path = locate(getattr(spec, param), beside)
    try:
        with path.open("rb") as file:
            if cache is None:
                return _read(spec, _chunks(file), tokenizer)
            return _cached(spec, file, tokenizer, cache)
    except FileNotFoundError:
        raise data_failure("file_not_found", f"there is no file '{path}'", param=param) from None
    except (RowError, UnfitRowError) as error:
        raise data_failure(f"invalid_{param}", str(error), param=param) from error
    except ChatTemplateError as error:
        given = spec.trainer.chat_template is not None
        blamed = "trainer.chat_template" if given else param
        raise data_failure("chat_template_error", str(error), param=blamed) from error
    except OverlengthError as error:
        raise data_failure("example_too_long", str(error), param=param) from error
    except NothingToTrainError as error:
        raise data_failure("no_trainable_tokens", str(error), param=param) from error


def _cached(
    spec: JobSpec, file: BufferedReader, tokenizer: PreTrainedTokenizerBase, cache: RowCache
) -> FileRows:
    content = content_digest(file)
    key = cache.key(content, Reading.of(spec))
    if (found := cache.find(key)) is not None:
        return found
    file.seek(0)
    seen = sha256()
    found = _read(spec, _seen_by(seen, file), tokenizer)
    if seen.hexdigest() == content:  # else the file was written to meanwhile
        cache.keep(key, found)
    return found


def _read(spec: JobSpec, chunks: Iterable[bytes], tokenizer: PreTrainedTokenizerBase) -> FileRows:
    digests = RowDigests()
    parsed = read_rows(chunks, digests=digests)
    return FileRows(lesson_kind(spec).read(Reading.of(spec), parsed, tokenizer), digests)


def _seen_by(seen: "_Hash", file: BinaryIO) -> Iterator[bytes]:
    for chunk in _chunks(file):
        seen.update(chunk)
        yield chunk


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(READ_BYTES), b"")
