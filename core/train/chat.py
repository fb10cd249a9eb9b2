"""A model to talk to, in a process of its own: `python -m core.train.chat --idle-s SECONDS`.

stdin: one line of JSON, `ChatWeights`; then a line for each turn, `ChatTurn`, or ``"stop"``, which ends the
answer that is being given. stdout: for each turn `Begun`, any number of `Said`, and `Ended` or `Refused`, a
line each. It ends when stdin does, when nobody asks for so long, and after running out of memory.
"""

import argparse
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import ValidationError
from transformers import PreTrainedModel
from transformers.utils import logging

from core.data.chat import encode_prompt
from core.data.conversation import ChatTemplateError
from core.data.rows import ChatRow
from core.models.adapter import load_adapter, with_adapter
from core.models.catalog import ModelUnusable, facts_of
from core.models.load import load_model, load_tokenizer
from core.rollout import RolloutError, Stream, stop_ids
from core.rollout.policy import resting
from core.rollout.single import Reading, tokens_of
from core.rollout.trial import may_pad
from core.spec.adapter import LoraSpec
from core.spec.chat import USUAL_ANSWER_TOKENS, Begun, ChatTurn, ChatWeights, Ended, Refused, Said
from core.spec.errors import RunFailure
from core.spec.job import DEFAULT_CONTEXT
from core.train.course import device
from core.train.memory import is_out_of_memory
from core.train.utterance import Utterance

STOP = "stop"
Reply = Begun | Said | Ended | Refused


class Talker:
    """A loaded model, its tokenizer, and the tokens that it was made for."""

    def __init__(self, model: PreTrainedModel, tokenizer: Any, context: int) -> None:
        self._model, self._tokenizer, self._context = model, tokenizer, context
        self._stop_ids = stop_ids(model, tokenizer)
        with resting(model):
            may_pad(model)

    @classmethod
    def load(cls, weights: ChatWeights) -> Self:
        """Raises RunFailure, ModelUnusable, or RolloutError for a model that cannot be sampled from."""
        where = device()
        dtype = torch.bfloat16 if where.type == "cuda" else torch.float32
        facts = facts_of(Path(weights.folder), Path(weights.folder).name)
        model = load_model(weights.folder, where, dtype)
        if weights.adapter is not None:
            with_adapter(model, LoraSpec.parse(weights.lora), seed=0, base=weights.folder)
            load_adapter(model, Path(weights.adapter))
        tokenizer = load_tokenizer(weights.adapter or weights.folder)
        return cls(model.eval(), tokenizer, facts.longest_context or DEFAULT_CONTEXT)

    def replies(self, turn: ChatTurn, stopped: threading.Event) -> Iterator[Reply]:
        """The answer to a turn; it breaks off without an end once ``stopped`` is set."""
        try:
            prompt = encode_prompt(
                ChatRow.model_validate({"messages": turn.messages}), self._tokenizer
            )
        except (ChatTemplateError, ValidationError) as error:
            yield Refused(
                status=400, code="chat_template_error", message=str(error), param="messages"
            )
            return
        room = self._context - len(prompt)
        if room < (turn.max_tokens or 1):
            yield _too_long(len(prompt), turn.max_tokens, self._context)
            return
        yield Begun(prompt_tokens=len(prompt))
        most = turn.max_tokens or min(room, USUAL_ANSWER_TOKENS)
        reading = Reading(turn.temperature, turn.top_p, most, self._stop_ids)
        yield from self._answer(prompt, Stream(turn.seed, 0, "chat"), reading, turn.stop, stopped)

    def _answer(
        self,
        prompt: list[int],
        stream: Stream,
        reading: Reading,
        stops: list[str],
        stopped: threading.Event,
    ) -> Iterator[Reply]:
        utterance, count, reason = Utterance(self._tokenizer, stops), 0, "length"
        with closing(tokens_of(self._model, prompt, stream, reading)) as tokens:
            for token in tokens:
                count += 1
                if stopped.is_set():
                    break
                if token in reading.stop_ids:
                    reason = "stop"
                    break
                if text := utterance.add(token):
                    yield Said(text=text)
                if utterance.stopped:
                    break
        if text := utterance.end():
            yield Said(text=text)
        yield Ended(
            finish_reason="stop" if utterance.stopped or reason == "stop" else "length",
            completion_tokens=count,
        )


def main() -> None:
    """Load, then answer until nobody asks any more."""
    parser = argparse.ArgumentParser(prog="python -m core.train.chat", description=__doc__)
    parser.add_argument("--idle-s", type=float, default=600.0, help="end when nobody asks so long")
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no reply

    def say(reply: Reply) -> None:
        out.write(reply.model_dump_json() + "\n")

    weights = ChatWeights.parse(json.loads(sys.stdin.readline()))
    turns: queue.Queue[ChatTurn] = queue.Queue()
    stopped = threading.Event()
    threading.Thread(target=_listen, args=(turns, stopped), daemon=True).start()
    try:
        talker = Talker.load(weights)
        _answer_all(talker, turns, stopped, options.idle_s, say)
    except Exception as error:
        say(_refused(error))
        raise


def _answer_all(
    talker: Talker,
    turns: "queue.Queue[ChatTurn]",
    stopped: threading.Event,
    idle_s: float,
    say: Any,
) -> None:
    while True:
        try:
            turn = turns.get(timeout=idle_s)
        except queue.Empty:
            return
        for reply in talker.replies(turn, stopped):
            say(reply)


def _listen(turns: "queue.Queue[ChatTurn]", stopped: threading.Event) -> None:
    for line in sys.stdin:
        said = json.loads(line)
        if said == STOP:
            stopped.set()
        else:
            stopped.clear()
            turns.put(ChatTurn.parse(said))
    os._exit(0)  # the parent is gone, or has no use for this model any more


def _too_long(prompt: int, asked: int | None, context: int) -> Refused:
    wish = "" if asked is None else f" and {asked} of an answer"
    return Refused(
        status=400,
        code="context_length_exceeded",
        message=f"the messages are {prompt} tokens{wish}, and the model was made for {context} in all",
        param="messages",
    )


def _refused(error: Exception) -> Refused:
    status, code, param = 500, "internal_error", None
    message = "the model's process failed; the worker's log says why"
    if isinstance(error, RunFailure | ModelUnusable | RolloutError):
        status, code, message, param = 400, "model_not_usable", str(error), "model"
    elif is_out_of_memory(error):
        status, code = 503, "out_of_memory"
        message = "the model and its cache do not fit into the memory that is free"
    return Refused(status=status, code=code, message=message, param=param, fatal=True)


if __name__ == "__main__":
    main()
