"""The one model that a worker keeps in memory for chats, in a process of its own.

So a crash, or memory that runs out, ends that process and nothing else; the next order starts another. The
model is another one when somebody asks for another, and leaves by itself when nobody asks.
"""

import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from core.models.catalog import ModelUnusable, UnknownModel
from core.spec.chat import ChatReply, ChatTurn, ChatWeights, Refused, chat_reply
from core.store.errors import NotFound
from worker.chat_weights import ChatSource, chat_source, lay_weights_out
from worker.context import WorkerContext
from worker.trainer import OURS

log = logging.getLogger(__name__)

FOLDER = "chat"


class ModelLost(Exception):
    """The model's process ended, or hangs; ``reply`` is what it said last, if that was a refusal."""

    def __init__(self, message: str, reply: Refused | None = None) -> None:
        self.reply = reply
        super().__init__(message)


class ChatModel:
    """A process with a model. Its replies are read by a thread, so that waiting for one can end."""

    def __init__(self, weights: ChatWeights, idle_s: float) -> None:
        command = [sys.executable, "-P", "-m", "core.train.chat", f"--idle-s={idle_s}"]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name not in OURS},
        )
        self._replies: queue.Queue[bytes | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._say(weights.model_dump(mode="json"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, turn: ChatTurn) -> None:
        """Begin an answer. Raises ModelLost."""
        self._say(turn.model_dump(mode="json"))

    def stop(self) -> None:
        """Break the answer off; it ends soon. Raises ModelLost."""
        self._say("stop")

    def reply(self, seconds: float) -> ChatReply | None:
        """The next reply, or None if there was none for so long. Raises ModelLost."""
        try:
            line = self._replies.get(timeout=seconds)
        except queue.Empty:
            return None
        if line is None:
            self._replies.put(None)
            raise ModelLost(f"the model's process ended with {self._process.wait()}")
        return chat_reply.validate_json(line)

    def close(self) -> None:
        """End it now, and be sure that it ended."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ModelLost("the model's process has ended") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put(None)


class ChatModels:
    """At most one loaded model, of whatever project."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._folder = context.settings.runs_dir / FOLDER
        self._loaded: tuple[str, ChatModel] | None = None

    def get(self, project_id: str, name: str) -> ChatModel:
        """The model of this name, which the project may use; another one leaves the memory for it.

        Whether it may is asked each time. Raises NotFound, ModelLost.
        """
        source = chat_source(self._context, project_id, name)
        if self._loaded is not None:
            key, model = self._loaded
            if key == source.key and model.alive:
                return model
        self.close()
        weights = self._weights(source)
        model = ChatModel(weights, self._context.settings.chat_idle_s)
        self._loaded = (source.key, model)
        log.info("model %s is loaded for chats", name)
        return model

    def close(self) -> None:
        """Let the model go, and its files."""
        if self._loaded is not None:
            self._loaded[1].close()
            self._loaded = None
        shutil.rmtree(self._own_folder(), ignore_errors=True)

    def _weights(self, source: ChatSource) -> ChatWeights:
        try:
            return lay_weights_out(self._context, source, self._own_folder())
        except UnknownModel as error:
            raise NotFound("model", str(error)) from error
        except ModelUnusable as error:
            said = Refused(status=400, code="model_not_usable", message=str(error), param="model")
            raise ModelLost(str(error), said) from error

    def _own_folder(self) -> Path:
        # A process pool has several; what a killed one left is removed by the next of its number.
        return self._folder / (self._context.name.rpartition(":")[2] or "0")


def refusal(error: ModelLost) -> Refused:
    """What somebody is told who waits for a model that was lost."""
    if error.reply is not None:
        return error.reply
    return Refused(status=503, code="model_lost", message=str(error))
