"""Pre-training and supervised fine-tuning: cross-entropy over the targets of the whole optimizer step."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from core.data.encoded import Encoded
from core.data.fitness import KINDS_OF_OBJECTIVE, UnfitRowError
from core.data.kinds import Document, Tokens
from core.data.learnable import encode_learnable
from core.data.lengths import Lengths
from core.data.overlength import fit
from core.data.pack import Packed, pack, unpacked
from core.data.parse import ParsedRow
from core.data.rows import ChatRow
from core.objectives import Loss, linear_weight, sft
from core.streambp import backward_linear, token_logps
from core.streambp.ledger import Settle
from core.train.lessons.buckets import PositionBuckets
from core.train.lessons.lesson import Learnt, Lesson
from core.train.lessons.reading import Reading, Rows
from core.train.passes import Pass, passes, target_count


class SupervisedLesson(Lesson):
    """Rows are `Encoded`, or `Packed` where the spec asks for packing."""

    @staticmethod
    def read(how: Reading, parsed: Iterable[ParsedRow], tokenizer: PreTrainedTokenizerBase) -> Rows:
        """Encode chat rows (sft), documents (pretrain) and ready tokens (both)."""
        lengths = Lengths()
        whole = []
        for row in parsed:
            whole.append(_encoded(row, how, tokenizer))
            lengths.add(len(whole[-1]))
        rows, report = fit(whole, how.context_length, how.on_overlength)
        return Rows(pack(rows, how.context_length) if how.packing else rows, report, lengths)

    @staticmethod
    def apart(rows: list[Any]) -> list[Any]:
        """Packed rows, each by itself again."""
        return unpacked(rows) if any(isinstance(row, Packed) for row in rows) else rows

    def learn(self, rows: Sequence[int], step: int, settle: Settle | None) -> Learnt:  # noqa: ARG002 - no step is like another
        """Cross-entropy is linear in the log-probabilities, so the head is walked once a pass."""
        chosen = [self.rows[index] for index in rows]
        count = target_count(chosen)
        here = sum(
            self._learn(part, count, settle).sums["token_loss"]
            for part in self.walked(self._passes(chosen))
        )
        total = self.crew.sums({"token_loss": here})["token_loss"]
        return Learnt(total / count, tokens=sum(map(len, chosen)), targets=count)

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Mean loss of the held-out targets in nats, and by where in its document a target stands."""
        buckets = PositionBuckets()
        for part in self.beating(self._passes(self.held_out)):
            logp_BT = token_logps(self.model, *part.scored, head_chunk_tokens=self.tile)
            buckets.add(-logp_BT, part.weight_BT, part.layout.position_ids())
        buckets = PositionBuckets.merged(self.crew.each(buckets))
        return buckets.metrics("full_valid_loss")

    def _passes(self, rows: Sequence[Encoded]) -> Iterator[Pass]:
        return passes(rows, self.tokens_per_pass, self.device, self.crew)

    def _learn(self, part: Pass, normaliser: float, settle: Settle | None) -> Loss:
        def objective(logp_BT: Tensor) -> Loss:
            return sft(logp_BT, part.weight_BT, normaliser=normaliser)

        weight_BT = linear_weight(objective, part.weight_BT)
        return objective(
            backward_linear(
                self.model, *part.scored, weight_BT, head_chunk_tokens=self.tile, settle=settle
            )
        )


def _encoded(row: ParsedRow, how: Reading, tokenizer: PreTrainedTokenizerBase) -> Encoded:
    value = row.value
    if not isinstance(value, KINDS_OF_OBJECTIVE[how.objective]):
        raise UnfitRowError(row, how.objective)
    assert isinstance(value, ChatRow | Document | Tokens), "these kinds alone are left"
    return encode_learnable(value, tokenizer, train_on=how.train_on, line=row.line)
