"""Shows one row to another process: `python -m core.train.preview`, for the API, which imports no torch.

stdin: one line of JSON, `PreviewOrder`; then the bytes of the file, of which no more is read than needed.
stdout: JSON, ``{"preview": {...}}`` or ``{"error": {"code", "message", "param"}}``. The exit code is 0
for both; anything else is a fault of this program.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, BinaryIO, Literal

from core.data.conversation import ChatTemplateError
from core.data.fitness import UnfitRowError
from core.data.parse import RowError
from core.data.preview import NoRowError, preview, row_at
from core.models.load import load_tokenizer
from core.spec.errors import RunFailure
from core.spec.tree import Spec

READ_BYTES = 2**18


class PreviewOrder(Spec):
    """What is to be shown; ``model`` is a folder, ``line`` None the first row."""

    model: str
    line: int | None = None
    objective: Literal["pretrain", "sft", "dpo", "grpo"] | None = None
    train_on: Literal["assistant", "all"] = "assistant"
    chat_template: str | None = None


def answer(order: PreviewOrder, file: BinaryIO) -> dict[str, Any]:
    """The preview, or the user's fault."""
    try:
        row = row_at(_pieces(file), order.line)
        file.close()  # whoever sends learns that the rest is not wanted
        tokenizer = load_tokenizer(order.model, order.chat_template)
        shown = preview(row, tokenizer, objective=order.objective, train_on=order.train_on)
    except NoRowError as error:
        return _error("no_such_row", error, "line")
    except (RowError, UnfitRowError) as error:
        return _error("invalid_training_file", error, "training_file")
    except ChatTemplateError as error:
        given = order.chat_template is not None
        param = "trainer.chat_template" if given else "training_file"
        return _error("chat_template_error", error, param)
    except RunFailure as failure:
        return _error(failure.error.code, failure, "model")
    return {"preview": asdict(shown)}


def main() -> None:
    """Answer one order."""
    order = PreviewOrder.parse(json.loads(sys.stdin.buffer.readline()))
    json.dump(answer(order, sys.stdin.buffer), sys.stdout)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(READ_BYTES):
        yield piece


def _error(code: str, error: Exception, param: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": str(error), "param": param}}


if __name__ == "__main__":
    main()
