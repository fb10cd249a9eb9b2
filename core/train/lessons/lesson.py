"""What the loop asks of an objective, and what it is told."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.data.parse import ParsedRow
from core.ranks import ALONE, Crew, syncing
from core.spec.job import JobSpec
from core.streambp.ledger import Settle
from core.train.lessons.reading import RESOLVED, Reading, Rows

T = TypeVar("T")
Base = Callable[[], AbstractContextManager[PreTrainedModel]]
"""A context in which there is the model as it was before training, attached and frozen."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """One optimizer step's figures.

    ``tokens`` went through the model, ``targets`` of them carried loss. Without a ``signal`` nothing was
    to be learnt, and no weight is stepped. ``metrics`` are the objective's own.
    """

    loss: float
    tokens: int
    targets: int
    signal: bool = True
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is done otherwise than one might think; a note of the run's journal."""

    code: str
    message: str


def unshared(mixing: Sequence[str]) -> list[Remark]:
    """What is to be told where these layers keep a prompt from being computed once for its answers."""
    if not mixing:
        return []
    message = f"a prompt is computed once for each answer: {mixing[0]} mixes documents"
    return [Remark("prompts.not_shared", message)]


class Lesson(ABC):
    """One objective on one model. ``rows`` are trained on, ``held_out`` are measured.

    ``beat`` is called whenever a part of a step or of a measurement is done; whoever watches a run sets it.
    """

    def __init__(
        self,
        spec: JobSpec,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[Any],
        held_out: Sequence[Any],
        base: Base | None = None,
        crew: Crew = ALONE,
    ) -> None:
        self.spec = spec
        self.crew = crew
        self.base = base or _no_base
        self.model = model
        self.tokenizer = tokenizer
        self.rows = rows
        self.held_out = held_out
        self.beat: Callable[[], None] = _unheard
        self.device = next(model.parameters()).device

    @property
    def tokens_per_pass(self) -> int:
        """Tokens that go through the model at once."""
        tokens = self.spec.trainer.tokens_per_pass
        assert tokens is not None, RESOLVED
        return tokens

    @property
    def tile(self) -> int:
        """Tokens whose logits exist at once."""
        return self.spec.trainer.stream.head_chunk_tokens

    def walked(self, passes: Iterable[T]) -> Iterator[T]:
        """A step's passes, as `beating`; whoever holds gradients is told which is the last."""
        whole = list(passes)
        for number, part in enumerate(self.beating(whole), start=1):
            syncing(self.model, last=number == len(whole))
            yield part

    def beating(self, parts: Iterable[T]) -> Iterator[T]:
        """The ``parts``, each of which has been dealt with when the next is asked for."""
        for part in parts:
            yield part
            self.beat()

    @staticmethod
    @abstractmethod
    def read(how: Reading, parsed: Iterable[ParsedRow], tokenizer: PreTrainedTokenizerBase) -> Rows:
        """Encode a file's rows, none longer than the context, by nothing but these three.

        Raises UnfitRowError, ChatTemplateError, OverlengthError, NothingToTrainError.
        """

    @staticmethod
    def apart(rows: list[Any]) -> list[Any]:
        """The rows for a model whose layers would mix documents that stand in one."""
        return rows

    @abstractmethod
    def learn(self, rows: Sequence[int], step: int, settle: Settle | None) -> Learnt:
        """Add the gradients of step ``step`` (from 1) on these of the rows; the model is in training mode."""

    @abstractmethod
    def measure(self) -> dict[str, float]:
        """Metrics of the held-out rows, of which there are some; the model is in evaluation mode."""

    def remarks(self) -> list[Remark]:
        """What the run is to tell before it starts."""
        return []

    def begin(self) -> None:  # noqa: B027 - most lessons have nothing to do here
        """Before the first step of a run, never of one that is resumed."""

    def close(self) -> None:  # noqa: B027 - nor here
        """After the last step, or when the run is stopped or fails."""

    def state(self) -> dict[str, Any]:
        """What a resumed run needs beyond weights and the number of the step: tensors, numbers, text."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 - nor here
        """Take what `state` gave."""


def _unheard() -> None:
    """Nobody watches."""


def _no_base() -> AbstractContextManager[PreTrainedModel]:
    raise LookupError("this lesson was not given the base model")
