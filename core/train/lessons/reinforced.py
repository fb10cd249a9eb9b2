"""Group relative policy optimisation: sample answers to prompts, grade them, prefer the better of a group.

A batch of prompts is sampled from the policy as it is, and serves ``updates_per_batch`` optimizer steps. The
log-probabilities at sampling are those of the first of these steps itself, so that there the ratio is exactly
1; they are kept for the others, and in the state of a run that is stopped between.

Legend: B batch, T tokens, P prompts, G answers of each, A answers of the step, N scored tokens.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from core.data.fitness import UnfitRowError
from core.data.kinds import Prompt
from core.data.lengths import Lengths
from core.data.parse import ParsedRow
from core.data.prompts import encode_item, fit_prompts
from core.graders.check import refusals
from core.graders.grade import Grading
from core.objectives import grpo, step_normaliser
from core.ranks import gathered, shares
from core.rollout import Answer, PolicySampler, Sampling, SamplingError, Stream, stop_ids
from core.spec.errors import spec_failure
from core.spec.objective import GrpoSpec
from core.streambp import answer_logps, attachment_of
from core.streambp.ledger import Settle
from core.train.lessons.branches import BranchPass, branch_passes
from core.train.lessons.graded import GradedAnswers, by_answer, graded, table
from core.train.lessons.lesson import (
    Learnt,
    Lesson,
    Remark,
    unshared,
)
from core.train.lessons.reading import Reading, Rows

GRADERS = min(4, os.cpu_count() or 1)
"""Processes of a grader that needs some."""


class ReinforcedLesson(Lesson):
    """Rows are `EncodedPrompt`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        objective = self.spec.trainer.objective
        assert isinstance(objective, GrpoSpec)
        for problem in refusals(objective.grader, "trainer.objective.grader"):
            raise spec_failure(problem.code, problem.message, param=problem.path)
        self._objective = objective
        self._batch: GradedAnswers | None = None
        self._stops = stop_ids(self.model, self.tokenizer)
        self._sampler = PolicySampler(
            self.model, tokens_at_once=self.tokens_per_pass, beat=self._sampled_on
        )
        self._mixing = attachment_of(self.model).mixing
        self._grading = Grading(objective.grader, workers=GRADERS)

    @staticmethod
    def read(how: Reading, parsed: Iterable[ParsedRow], tokenizer: PreTrainedTokenizerBase) -> Rows:
        """Encode prompts that leave room for an answer of full length."""
        most = how.group_size * how.max_completion_tokens
        lengths = Lengths()
        prompts = []
        for row in parsed:
            if not isinstance(row.value, Prompt):
                raise UnfitRowError(row, "grpo")
            prompts.append(encode_item(row.value, tokenizer, answers_tokens=most, line=row.line))
            lengths.add(len(prompts[-1].input_ids))
        room = how.context_length - how.max_completion_tokens
        return Rows(*fit_prompts(prompts, room, how.on_overlength), lengths)

    def learn(self, rows: Sequence[int], step: int, settle: Settle | None) -> Learnt:  # noqa: ARG002 - never fused
        """Sample if the batch is new, then add the gradients of all its answers."""
        update = (step - 1) % self._objective.updates_per_batch
        if update == 0 or self._batch is None:
            try:
                self._batch = self._sampled(rows, step)
            except SamplingError as error:
                return Learnt(_no_number(error), tokens=0, targets=0)
        batch = self._batch
        self.model.eval()  # what is scored is what was sampled: without dropout
        normaliser = self._normaliser(batch)
        sums = {"loss": 0.0, "tokens": float(batch.tokens)}
        if batch.has_signal:
            sums = self._learn(batch, normaliser)
        learnt = Learnt(
            sums.pop("loss") / normaliser,
            tokens=sum(map(len, batch.groups)),
            targets=batch.tokens,
            signal=batch.has_signal,
            metrics=batch.metrics | _means(sums),
        )
        if update + 1 == self._objective.updates_per_batch:
            self._batch = None
        return learnt

    def remarks(self) -> list[Remark]:
        """Tell where a prompt is not computed once for its answers."""
        return unshared(self._mixing)

    def measure(self) -> dict[str, float]:
        """The mean reward of answers to held-out prompts, drawn with the same random numbers each time."""
        try:
            found = self._answers(
                self.held_out,
                range(len(self.held_out)),
                Stream(self.spec.seed, 0, "validation"),
                self._objective.eval_samples,
            )
        except SamplingError as error:
            return {"valid_reward_mean": _no_number(error)}
        names = ("reward_mean", "reward_std", "completion_tokens", "truncated_share")
        return {f"valid_{name}": found.metrics[name] for name in names}

    def close(self) -> None:
        """Let the graders' processes go."""
        self._grading.close()

    def state(self) -> dict[str, Any]:
        """The batch, where more steps are to be made on it."""
        if self._batch is None:
            return {}
        return {"batch": self._batch.state(self.crew)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what `state` gave."""
        self._batch = GradedAnswers.from_state(state["batch"]) if "batch" in state else None

    def _sampled_on(self) -> None:
        self.beat()  # Whose it is may be set later.

    def _sampled(self, rows: Sequence[int], step: int) -> GradedAnswers:
        chosen = [self.rows[row] for row in rows]
        stream = Stream(self.spec.seed, step)
        batch = self._answers(chosen, rows, stream, self._objective.group_size)
        if self._objective.kl_weight:
            batch.reference = self._reference(batch)
        return batch

    def _answers(
        self, prompts: Sequence[Any], rows: Sequence[int], stream: Stream, count: int
    ) -> GradedAnswers:
        sampling = Sampling(
            count, self._objective.max_completion_tokens, self._stops, self._objective.temperature
        )
        answers = self._drawn(prompts, rows, stream, sampling)
        found = None
        if self.crew.leads:
            found = graded(
                self._objective,
                prompts,
                answers,
                self.tokenizer,
                self._stops,
                lambda asked: self.beating(self._grading.grades(asked)),
            )
        return self.crew.told(found)

    def _drawn(
        self, prompts: Sequence[Any], rows: Sequence[int], stream: Stream, sampling: Sampling
    ) -> list[list[Answer]]:
        """Answers to all prompts, each drawn by one rank: what is drawn is keyed by its row alone."""
        dealt = shares([len(prompt) for prompt in prompts], self.crew.size)
        mine = self.crew.dealt(dealt)
        ids = [prompts[index].input_ids for index in mine]
        with gathered(self.model):
            drawn = self._sampler.sample(
                ids, rows=[rows[index] for index in mine], stream=stream, sampling=sampling
            )
        told = dict(zip(chain(*dealt), chain(*self.crew.each(drawn)), strict=True))
        return [told[index] for index in range(len(prompts))]

    def _learn(self, batch: GradedAnswers, normaliser: float) -> dict[str, float]:
        """Add the gradients of all answers; sums of figures."""
        old: dict[int, Tensor] = {}
        sums: dict[str, float] = {}
        for part in self.walked(self._passes(batch)):
            logp_BT, entropy_BT = self._scores(part)
            numbers = self._numbers(batch, part)
            if batch.old is None:
                old |= by_answer(logp_BT.detach(), part.answer_BT, numbers)
            loss = grpo(
                logp_BT,
                table(batch.old or old, part.answer_BT, numbers, logp_BT),
                part.answer_BT,
                batch.advantage_A[numbers].to(logp_BT.device),
                self._objective,
                normaliser=normaliser,
                reference_BT=None
                if batch.reference is None
                else table(batch.reference, part.answer_BT, numbers, logp_BT),
                entropy_BT=entropy_BT.detach(),
            )
            loss.value.backward()
            for name, value in loss.sums.items():
                sums[name] = sums.get(name, 0.0) + value
        batch.old = batch.old or old
        return self.crew.sums(sums)

    def _scores(self, part: BranchPass) -> tuple[Tensor, Tensor]:
        return answer_logps(
            self.model,
            *part.scored,
            head_chunk_tokens=self.tile,
            temperature=self._objective.temperature,
            with_entropy=True,
        )

    def _reference(self, batch: GradedAnswers) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}
        with torch.no_grad(), self.base() as base:
            for part in self.beating(self._passes(batch)):
                logp_BT = answer_logps(
                    base,
                    *part.scored,
                    head_chunk_tokens=self.tile,
                    temperature=self._objective.temperature,
                )
                found |= by_answer(logp_BT, part.answer_BT, self._numbers(batch, part))
        return found

    def _passes(self, batch: GradedAnswers) -> Iterator[BranchPass]:
        """Where layers mix documents, each answer by itself: a group of them may be large."""
        groups = batch.alone() if self._mixing else batch.groups
        return branch_passes(
            groups, self.tokens_per_pass, self.device, share=not self._mixing, crew=self.crew
        )

    def _numbers(self, batch: GradedAnswers, part: BranchPass) -> list[int]:
        """Which of the batch's answers those of a pass are, in order."""
        size = 1 if self._mixing else len(batch.groups[0].answers)
        return [size * member + number for member in part.members for number in range(size)]

    def _normaliser(self, batch: GradedAnswers) -> float:
        answers = len(batch.advantage_A)
        return step_normaliser(self._objective, answers=answers, tokens=batch.tokens)


def _no_number(error: SamplingError) -> float:
    """What a loss or reward is where the policy's logits are no numbers; raises any other error."""
    if error.field != "logits":
        raise error
    return float("nan")


def _means(sums: dict[str, float]) -> dict[str, float]:
    tokens = sums["tokens"]
    names = {"clipped": "clip_share", "kl": "kl", "entropy": "entropy"}
    return {name: sums[key] / tokens for key, name in names.items() if key in sums}
