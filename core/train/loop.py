"""The loop: steps, and between them evaluation, checkpoints and the wish to stop."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase

from core.data.encoded import Encoded
from core.data.order import Steps
from core.optim import load_exact_state
from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.job import JobSpec
from core.train.checkpoint import drop_old, load_state, save_checkpoint
from core.train.journal import Journal
from core.train.learner import Learner
from core.train.meter import Meter
from core.train.optimizer import learning_rate
from core.train.stop import StopRequest
from core.train.weights import state_of


class Loop:
    """One run over ``rows`` in the order of ``steps``. ``done`` counts finished steps."""

    def __init__(
        self,
        spec: JobSpec,
        *,
        directory: Path,
        learner: Learner,
        tokenizer: PreTrainedTokenizerBase,
        rows: list[Encoded],
        validation: list[Encoded],
        steps: Steps,
        journal: Journal,
    ) -> None:
        self._spec = spec
        self._directory = directory
        self._learner = learner
        self._tokenizer = tokenizer
        self._rows = rows
        self._validation = validation
        self._steps = steps
        self._journal = journal
        self._metrics: dict[str, float] = {}
        self._saved_at: int | None = None
        self._trained_tokens = 0
        self.done = 0
        self.total = len(steps)

    def resume(self, checkpoint: Path) -> None:
        """Go on from a whole checkpoint, whose weights the model has already."""
        state = load_state(checkpoint)
        self._learner.optimizer.load_state_dict(state["optimizer"])
        if state["weights"]:
            load_exact_state(self._learner.model, state["weights"])
        self._trained_tokens = state["trained_tokens"]
        self._metrics = state["metrics"]
        self.done = self._saved_at = state["step"]

    def run(self, stop: StopRequest) -> bool:
        """Walk the remaining steps; returns whether all are done, False if asked to stop."""
        meter = Meter(len(self._steps) - self.done)
        if self.done == 0:
            self._evaluate()
        while self.done < len(self._steps) and not stop.asked:
            self._step(meter)
            if self._due(self._spec.trainer.evaluation.every):
                self._evaluate()
            if self._due(self._spec.trainer.checkpoint.every):
                self._save()
        if self.done and self._saved_at != self.done:
            self._save()
        if self.done < len(self._steps):
            self._journal.stopped(self.done)
            return False
        self._journal.finished(self.done, self._trained_tokens, self._metrics)
        return True

    def _step(self, meter: Meter) -> None:
        rows = [self._rows[index] for index in self._steps[self.done]]
        rate = learning_rate(self._spec, self.done, len(self._steps))
        self.done += 1
        metrics = self._learner.step(rows, self.done, rate)
        lines = ", ".join(str(row.line) for row in rows)
        _refuse_infinite(metrics, f"at step {self.done} (lines {lines})", self.done - 1)
        self._trained_tokens += sum(row.targets for row in rows)
        metrics["epoch"] = self.done / self._steps_per_epoch
        metrics.update(meter.step(sum(map(len, rows))))
        self._metrics["train_loss"] = metrics["train_loss"]
        self._journal.step_done(
            self.done,
            len(self._steps),
            trained_tokens=self._trained_tokens,
            metrics=metrics,
            seconds_left=meter.seconds_left,
        )

    def _evaluate(self) -> None:
        if self._validation:
            loss = self._learner.mean_loss(self._validation)
            metrics = {"full_valid_loss": loss}
            _refuse_infinite(metrics, f"on the validation file after step {self.done}", self.done)
            self._metrics.update(metrics)
            self._journal.evaluated(self.done, metrics)

    def _save(self) -> None:
        folder = save_checkpoint(
            self._directory,
            step=self.done,
            spec=self._spec,
            model=self._learner.model,
            tokenizer=self._tokenizer,
            state={
                "step": self.done,
                "trained_tokens": self._trained_tokens,
                "metrics": self._metrics,
                "optimizer": self._learner.optimizer.state_dict(),
                "weights": state_of(self._learner.model, self._spec.trainer.precision),
            },
        )
        self._saved_at = self.done
        path = folder.relative_to(self._directory).as_posix()
        self._journal.saved(self.done, path, self._metrics)
        drop_old(folder, self._spec.trainer.checkpoint.keep_last)

    def _due(self, every: int | None) -> bool:
        last = self.done == len(self._steps)
        return last or self.done % (every or self._steps_per_epoch) == 0

    @property
    def _steps_per_epoch(self) -> int:
        return -(-len(self._rows) // self._spec.hyperparameters.batch_size)


def _refuse_infinite(metrics: dict[str, float], where: str, last_step: int) -> None:
    broken = [name for name, value in metrics.items() if value - value != 0.0]
    if not broken:
        return
    raise RunFailure(
        JobError(
            code="loss_not_finite",
            message=f"{' and '.join(broken)} not finite {where}",
            param="trainer.learning_rate",
            hint="lower the learning rate, or look at these rows; the last checkpoint is kept",
            last_step=last_step,
        ),
        ExitCode.diverged,
    )
