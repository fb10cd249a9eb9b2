"""From the names in a spec to a model's folder and encoded rows."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from transformers import PreTrainedTokenizerBase

from core.data.conversation import ChatTemplateError
from core.data.duplicates import SharedRows, duplicates_across
from core.data.fitness import UnfitRowError
from core.data.overlength import NothingToTrainError, OverlengthError
from core.data.parse import RowError, read_rows
from core.models.catalog import facts_of
from core.spec.errors import data_failure
from core.spec.job import JobSpec
from core.spec.model import ModelFacts
from core.spec.run import INPUTS_FOLDER
from core.train.lessons import Rows, lesson_kind

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
    spec: JobSpec, param: str, beside: Path, tokenizer: PreTrainedTokenizerBase
) -> Rows:
    """The rows of the spec's ``param`` (training_file or validation_file), ready for its lesson.

    Raises RunFailure that names the line and the remedy.
    """
    path = locate(getattr(spec, param), beside)
    try:
        with path.open("rb") as file:
            return lesson_kind(spec).read(spec, read_rows(_chunks(file)), tokenizer)
    except FileNotFoundError:
        raise data_failure("file_not_found", f"there is no file '{path}'", param=param) from None
    except (RowError, UnfitRowError) as error:
        raise data_failure(f"invalid_{param}", str(error), param=param) from error
    except ChatTemplateError as error:
        raise data_failure("chat_template_error", str(error), param=param) from error
    except OverlengthError as error:
        raise data_failure("example_too_long", str(error), param=param) from error
    except NothingToTrainError as error:
        raise data_failure("no_trainable_tokens", str(error), param=param) from error


def rows_in_both_files(spec: JobSpec, beside: Path) -> SharedRows:
    """Which rows of the training file stand in the validation file too, which then measures memory."""
    assert spec.validation_file is not None
    paths = (locate(name, beside) for name in (spec.training_file, spec.validation_file))
    with ExitStack() as stack:
        training, validation = (_chunks(stack.enter_context(path.open("rb"))) for path in paths)
        return duplicates_across(training, validation)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(READ_BYTES), b"")
