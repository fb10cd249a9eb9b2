"""One walk over a run's rows: model, lesson and optimizer are built, started or resumed, and stepped."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.data.order import Steps
from core.data.order import steps as ordered_steps
from core.ranks import ALONE, Crew, let_go, spread
from core.spec.file_read import FileRead
from core.spec.job import JobSpec
from core.spec.objective import updates_per_batch
from core.spec.run import RANKS_FOLDER
from core.streambp import attachment_of
from core.streambp.anatomy import causal_lm, decoder_layers, decoder_of
from core.train.base import base_of
from core.train.heart import Heart
from core.train.journal import Journal
from core.train.learner import Learner
from core.train.lessons import Lesson, lesson_kind
from core.train.loop import Loop
from core.train.optimizer import build_optimizer
from core.train.stop import StopRequest
from core.train.stream import streamed
from core.train.weights import trained_model

_HOST = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Built:
    """A loop before its first step, and the model's layers by how they are run."""

    loop: Loop
    layers: dict[str, int]


@dataclass(frozen=True, slots=True)
class Course:
    """What a walk is made of: a resolved ``spec`` with a number of chunk tokens, and encoded rows."""

    spec: JobSpec
    source: str
    tokenizer: PreTrainedTokenizerBase
    rows: list[Any]
    held_out: list[Any]
    directory: Path
    journal: Journal
    heart: Heart
    files: Sequence[FileRead] = ()
    """What the files held, to be told when the run begins."""
    crew: Crew = ALONE

    @property
    def own_folder(self) -> Path:
        """Where this rank may write what no other reads."""
        return own_folder(self.directory, self.crew)

    def run(self, checkpoint: Path | None, stop: StopRequest) -> bool:
        """Walk from the beginning or from a ``checkpoint``; tell whether all steps are done.

        Raises CheckpointDamaged where the checkpoint does not become what was saved, and RunFailure.
        """
        with self.built(checkpoint) as built:
            return self.walk(built, checkpoint, stop)

    @contextmanager
    def built(self, checkpoint: Path | None) -> Iterator[Built]:
        """Model, lesson and optimizer inside the block. Raises RunFailure."""
        spec, source, journal = self.spec, self.source, self.journal
        alone = self.crew.size == 1
        # Weights are cut on their way to the device, which may not hold them whole.
        model = trained_model(spec, source, checkpoint, device(self.crew) if alone else _HOST)
        with streamed(model, spec.trainer.stream, self.own_folder, journal) as layers:
            rows, held_out = (self._kept_apart(x, model) for x in (self.rows, self.held_out))
            base = base_of(spec, source, model)
            self._spread(model)
            lesson = lesson_kind(spec)(spec, model, self.tokenizer, rows, held_out, base, self.crew)
            let_go(model)
            lesson.beat = self.heart.beat
            with closing(lesson):
                yield Built(self._loop(lesson, len(rows)), layers)

    def walk(self, built: Built, checkpoint: Path | None, stop: StopRequest) -> bool:
        """Begin or go on, and step to the end; as `run`."""
        loop = built.loop
        for remark in loop.lesson.remarks():
            self.journal.note(remark.code, remark.message)
        if checkpoint is not None:
            loop.resume(checkpoint)
        else:
            loop.lesson.begin()
        rows = len(loop.lesson.rows)
        self.journal.started(loop.done, loop.total, rows, built.layers, self.files)
        _tell_step(self.spec, self.journal)
        return loop.run(stop)

    def _spread(self, model: PreTrainedModel) -> None:
        """Over the ranks; afterwards the embedding and what else no layer holds is the device's."""
        strategy = self.spec.trainer.parallel.strategy
        causal = causal_lm(model)
        layers = [layer for _, layer in decoder_layers(causal, decoder_of(causal))]
        spread(causal, layers, strategy, self.crew, device(self.crew))

    def _loop(self, lesson: Lesson, rows: int) -> Loop:
        return Loop(
            self.spec,
            directory=self.directory,
            learner=Learner(self.spec, lesson, build_optimizer(self.spec, lesson.model)),
            steps=self._steps(rows),
            journal=self.journal,
        )

    def _steps(self, rows: int) -> Steps:
        numbers, trainer = self.spec.hyperparameters, self.spec.trainer
        return ordered_steps(
            rows,
            numbers.batch_size,
            numbers.n_epochs,
            self.spec.seed,
            trainer.max_steps,
            updates_per_batch(trainer.objective),
        )

    def _kept_apart(self, rows: list[Any], model: PreTrainedModel) -> list[Any]:
        """The rows, unpacked where the attached ``model`` would mix documents."""
        mixing = attachment_of(model).mixing
        apart = lesson_kind(self.spec).apart(rows) if mixing else rows
        if len(apart) != len(rows):
            self.journal.note(
                "packing.off",
                f"rows are not packed: {mixing[0]} would mix documents that stand in one row",
                rows=len(apart),
                layer=mixing[0],
            )
        return apart


def device(crew: Crew = ALONE) -> torch.device:
    """The GPU if there is one; of several the rank's own."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", crew.rank) if crew.size > 1 else torch.device("cuda")


def own_folder(directory: Path, crew: Crew) -> Path:
    """The leader's is the run's own ``directory``."""
    return directory if crew.leads else directory / RANKS_FOLDER / str(crew.rank)


def _tell_step(spec: JobSpec, journal: Journal) -> None:
    message = "weights are stepped after the backward pass, when all gradients are there"
    if spec.trainer.step == "fused":
        message = (
            "weights are stepped inside the backward pass: one layer's gradients exist at once"
        )
    journal.note("step.chosen", message, level="info", step=spec.trainer.step)
