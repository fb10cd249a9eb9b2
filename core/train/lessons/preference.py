"""Preferences: of two answers to a prompt the better one is to become the likelier one (dpo).

The reference is the model before its first step, so nothing but two numbers a pair is kept of it: the
log-probabilities of both answers, computed once when the run begins, by the path that the policy takes
afterwards, and saved with every checkpoint.

Legend: R rows of a file, P pairs, S their two sides: chosen, rejected; B batch, T tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from core.data.fitness import UnfitRowError
from core.data.kinds import Preference
from core.data.lengths import Lengths
from core.data.pair import EncodedPair, encode_pair, fit_pairs
from core.data.parse import ParsedRow
from core.objectives import Loss, answer_sums, dpo
from core.ranks import ALONE, Crew
from core.spec.job import JobSpec
from core.spec.objective import DpoSpec
from core.streambp import answer_logps, attachment_of
from core.streambp.ledger import Settle
from core.train.lessons.branches import BranchPass, branch_passes
from core.train.lessons.lesson import (
    Base,
    Learnt,
    Lesson,
    Remark,
    unshared,
)
from core.train.lessons.reading import Reading, Rows

_NAMES = {"margin": "reward_margin", "accuracy": "reward_accuracy"}


class PreferenceLesson(Lesson):
    """Rows are `EncodedPair`. The model is attached."""

    def __init__(
        self,
        spec: JobSpec,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[EncodedPair],
        held_out: Sequence[EncodedPair],
        base: Base | None = None,
        crew: Crew = ALONE,
    ) -> None:
        super().__init__(spec, model, tokenizer, rows, held_out, base, crew)
        assert isinstance(spec.trainer.objective, DpoSpec)
        self._objective = spec.trainer.objective
        self._mixing = attachment_of(model).mixing
        self._reference: dict[str, Tensor] = {}

    @staticmethod
    def read(how: Reading, parsed: Iterable[ParsedRow], tokenizer: PreTrainedTokenizerBase) -> Rows:
        """Encode preferences, whose branches fit the context. A pair is as long as its longer branch."""
        assert how.on_overlength != "split", "no spec has it beside this objective"
        lengths = Lengths()
        whole = []
        for row in parsed:
            pair = _encoded(row, tokenizer)
            whole.append(pair)
            lengths.add(len(pair.prompt_ids) + max(map(len, pair.answers)))
        return Rows(*fit_pairs(whole, how.context_length, how.on_overlength), lengths)

    def remarks(self) -> list[Remark]:
        """Tell where a prompt is not computed once for its answers."""
        return unshared(self._mixing)

    def begin(self) -> None:
        """Compute the reference's log-probabilities, of held-out rows too: the model is the base yet."""
        if self._objective.reference == "none":
            return
        self.model.eval()
        try:
            for name, pairs in (("rows", self.rows), ("held_out", self.held_out)):
                self._reference[name] = self._logps(pairs)
        finally:
            self.model.train()

    def state(self) -> dict[str, Any]:
        """The reference's log-probabilities, float64 of shape (R, S), on the CPU."""
        return {"reference": self._reference}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what `state` gave."""
        self._reference = state["reference"]

    def learn(self, rows: Sequence[int], step: int, settle: Settle | None) -> Learnt:  # noqa: ARG002 - never fused, and no step is like another
        """The loss is a mean over the step's pairs, however they are cut into passes."""
        pairs = [self.rows[index] for index in rows]
        reference_PS = self._reference["rows"][list(rows)] if self._reference else None
        figures: dict[str, float] = {}
        tokens = 0
        for part in self.walked(self._passes(pairs)):
            figures = _added(figures, self._learn(part, len(pairs), reference_PS))
            tokens += part.tokens if part.members else 0
        figures = self.crew.sums(figures | {"tokens": tokens})
        tokens = round(figures.pop("tokens"))
        metrics = _means(figures)
        targets = sum(pair.targets for pair in pairs)
        return Learnt(metrics.pop("loss"), tokens=tokens, targets=targets, metrics=metrics)

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Means over the held-out pairs, as of a step's."""
        reference_RS = self._reference.get("held_out")
        figures: dict[str, float] = {}
        for part in self.beating(self._passes(self.held_out)):
            figures = _added(figures, self._loss(part, len(self.held_out), reference_RS).sums)
        metrics = _means(self.crew.sums(figures))
        valid = {"full_valid_loss": metrics.pop("loss")}
        return valid | {f"valid_{name}": value for name, value in metrics.items()}

    def _learn(self, part: BranchPass, pairs: int, reference_PS: Tensor | None) -> dict[str, float]:
        loss = self._loss(part, pairs, reference_PS)
        loss.value.backward()
        return loss.sums

    def _loss(self, part: BranchPass, pairs: int, reference_PS: Tensor | None) -> Loss:
        """One pass's share of the loss of so many ``pairs``, to whom ``reference_PS`` belongs."""
        logp_PS, tokens_PS = self._scored(part)
        if reference_PS is not None:
            reference_PS = reference_PS[part.members].to(logp_PS.device)
        return dpo(logp_PS, tokens_PS, self._objective, normaliser=pairs, reference_PS=reference_PS)

    @torch.no_grad()
    def _logps(self, pairs: Sequence[EncodedPair]) -> Tensor:
        logp_RS = torch.zeros(len(pairs), 2, dtype=torch.float64)
        for part in self.beating(self._passes(pairs)):
            logp_RS[part.members] = self._scored(part)[0].cpu()
        return self.crew.total(logp_RS)

    def _scored(self, part: BranchPass) -> tuple[Tensor, Tensor]:
        """(logp_PS, tokens_PS): each answer's log-probability and its scored tokens."""
        logp_BT = answer_logps(
            self.model,
            *part.scored,
            head_chunk_tokens=self.tile,
        )
        logp_A, tokens_A = answer_sums(logp_BT, part.answer_BT, 2 * len(part.members))
        shape = len(part.members), 2
        return logp_A.view(shape), tokens_A.view(shape)

    def _passes(self, pairs: Sequence[EncodedPair]) -> Iterator[BranchPass]:
        return branch_passes(
            pairs, self.tokens_per_pass, self.device, share=not self._mixing, crew=self.crew
        )


def _encoded(row: ParsedRow, tokenizer: PreTrainedTokenizerBase) -> EncodedPair:
    if isinstance(row.value, Preference):
        return encode_pair(row.value, tokenizer, row.line)
    raise UnfitRowError(row, "dpo")


def _added(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + value for name, value in other.items()}


def _means(sums: dict[str, float]) -> dict[str, float]:
    """Means over pairs, under the names by which they are told."""
    sums = dict(sums)
    pairs = sums.pop("pairs")
    return {_NAMES.get(name, name): value / pairs for name, value in sums.items()}
