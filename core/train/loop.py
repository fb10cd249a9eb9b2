"""The loop: steps, and between them evaluation, checkpoints and the wish to stop."""

from pathlib import Path
from typing import Any

from core.data.order import Steps
from core.optim import load_exact_state
from core.spec.job import JobSpec
from core.train.best import Best, watched
from core.train.checkpoint import drop_old, load_state, save_checkpoint
from core.train.journal import Journal
from core.train.learner import Learner
from core.train.meter import Meter
from core.train.optimizer import learning_rate
from core.train.pace import Pace, tokens_left
from core.train.recovery import check_loaded
from core.train.skips import Skips, finite_part, not_finite, tell_left_out, tell_skipped
from core.train.stop import StopRequest
from core.train.weights import state_of
from core.train.whole_state import load_whole_state, whole_state


class Loop:
    """One run over a ``lesson``'s rows in the order of ``steps``. ``done`` counts finished steps."""

    def __init__(
        self, spec: JobSpec, *, directory: Path, learner: Learner, steps: Steps, journal: Journal
    ) -> None:
        self._spec = spec
        self._directory = directory
        self._learner = learner
        self.lesson = learner.lesson
        self._steps = steps
        self._journal = journal
        self._crew = learner.lesson.crew
        self._metrics: dict[str, float] = {}
        self._saved_at: int | None = None
        self._trained_tokens = 0
        self._best, self._stopping = watched(spec)
        self._skips = Skips(spec.trainer.max_skipped_steps)
        self.done = 0
        self.total = len(steps)

    def resume(self, checkpoint: Path) -> None:
        """Go on from a whole checkpoint, whose weights the model has already.

        Raises CheckpointDamaged where what was loaded is not what was saved.
        """
        state = load_state(checkpoint)
        load_whole_state(self._learner.optimizer, state["optimizer"])
        if state["weights"]:
            load_exact_state(self._learner.model, state["weights"])
        self.lesson.load_state(state["lesson"])
        for best in self._watched:
            best.load_state(state["best"][best.param])
        if "skips" in state:  # not in those of format 1
            self._skips.load_state(state["skips"])
        self._trained_tokens = state["trained_tokens"]
        self._metrics = state["metrics"]
        self.done = self._saved_at = state["step"]
        model, trainer = self._learner.model, self._spec.trainer
        check_loaded(checkpoint, model, trainer, self._state(), self._crew)

    def run(self, stop: StopRequest) -> bool:
        """Walk the remaining steps; returns whether all are done, False if asked to stop."""
        meter = self._meter()
        if self.done == 0:
            self._evaluate()
        while self.done < len(self._steps) and not self._ends(stop):
            self._step(meter)
            if self._due(self._spec.trainer.evaluation.every):
                self._evaluate()
            if self._due(self._spec.trainer.checkpoint.every) or self._is_best:
                self._save()
        if self.done and self._saved_at != self.done:
            self._save()
        if self.done < len(self._steps) and not self._patience_is_over:
            self._journal.stopped(self.done)
            return False
        self._tell_early_stop()
        self._journal.finished(self.done, self._trained_tokens, self._metrics)
        return True

    def _ends(self, stop: StopRequest) -> bool:
        """Whether this is to be the end, by the wish of any rank's process: all stop after the same step."""
        return self._patience_is_over or self._crew.any(stop.asked)

    def _step(self, meter: Meter) -> None:
        rows = self._steps[self.done]
        rate = learning_rate(self._spec, self.done, len(self._steps))
        meter.begin()
        self.done += 1
        learnt = self._learner.step(rows, self.done, rate)
        metrics, broken = finite_part(learnt.metrics)
        lines = [line for row in rows for line in self.lesson.rows[row].lines]
        if self._skips.see(self.done, broken, lines):
            tell_skipped(self._journal, self._spec.trainer.step, self.done, broken, lines)
        else:
            self._trained_tokens += learnt.targets
            self._metrics["train_loss"] = learnt.loss
            tell_left_out(self._journal, self.done, broken)
        metrics["epoch"] = self.done / self._steps.per_epoch
        metrics["skipped_steps"] = self._skips.total
        metrics.update(meter.step(learnt.tokens, [len(self.lesson.rows[row]) for row in rows]))
        self._journal.step_done(
            self.done,
            len(self._steps),
            trained_tokens=self._trained_tokens,
            metrics=metrics,
            seconds_left=meter.seconds_left,
        )

    def _meter(self) -> Meter:
        left = tokens_left([len(row) for row in self.lesson.rows], self._steps, self.done)
        return Meter(Pace(left), len(self._steps) - self.done)

    def _evaluate(self) -> None:
        if not self.lesson.held_out:
            return
        metrics = self._learner.measure()
        _, broken = finite_part(metrics)
        if broken:
            where = f"on the validation file after step {self.done}"
            raise not_finite(broken, where, last_step=self.done)
        self._metrics.update(metrics)
        self._journal.evaluated(self.done, metrics)
        for best in self._watched:
            best.see(self.done, metrics)

    @property
    def _watched(self) -> list[Best]:
        return [best for best in (self._best, self._stopping) if best is not None]

    @property
    def _is_best(self) -> bool:
        """Whether the weights after this step are the best so far, and are to be kept for it."""
        return self._best is not None and self._best.step == self.done

    @property
    def _patience_is_over(self) -> bool:
        stopping = self._spec.trainer.early_stopping
        if stopping is None or self._stopping is None:
            return False
        return self._stopping.since >= stopping.patience

    def _tell_early_stop(self) -> None:
        if self._patience_is_over and self._stopping is not None:
            best = self._stopping
            self._journal.note(
                "early_stopping",
                f"ended after step {self.done} of {self.total}: {best.metric} was best, {best.value:g}, "
                f"after step {best.step}",
                level="info",
                metric=best.metric,
                best=float(best.value or 0.0),
                step=best.step,
            )

    def _save(self) -> None:
        folder = save_checkpoint(
            self._directory,
            step=self.done,
            spec=self._spec,
            model=self._learner.model,
            tokenizer=self.lesson.tokenizer,
            state=self._state(),
            crew=self._crew,
        )
        self._saved_at = self.done
        path = folder.relative_to(self._directory).as_posix()
        best_step = None if self._best is None else self._best.step
        self._journal.saved(self.done, path, self._metrics, best_step)
        if self._crew.leads:
            drop_old(folder, self._spec.trainer.checkpoint.keep_last, best_step)

    def _state(self) -> dict[str, Any]:
        """All that a run goes on from, beside its weights."""
        return {
            "step": self.done,
            "trained_tokens": self._trained_tokens,
            "metrics": self._metrics,
            "optimizer": whole_state(self._learner.optimizer),
            "weights": state_of(self._learner.model, self._spec.trainer),
            "lesson": self.lesson.state(),
            "best": {best.param: best.state() for best in self._watched},
            "skips": self._skips.state(),
        }

    def _due(self, every: int | None) -> bool:
        last = self.done == len(self._steps)
        return last or self.done % (every or self._steps.per_epoch) == 0
