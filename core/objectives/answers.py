"""From tokens to answers: which scored token belongs to which answer of a pass.

An answer lies in one pass as a whole, so what is known of it there is final. Sums are made in float64: over
100,000 tokens a log-probability in float32 is off by hundredths of a nat, and objectives live on differences.

Legend: B batch, T tokens, N scored tokens, A answers of the pass.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from core.objectives.errors import AnswerError


@dataclass(frozen=True, slots=True)
class Answers:
    """The scored tokens of a pass: where they are, and whose."""

    scored_BT: Tensor
    answer_N: Tensor
    count: int

    @classmethod
    def of(cls, answer_BT: Tensor, count: int) -> "Answers":
        """``answer_BT``: an integer from 0 to ``count`` - 1, or -1 where no answer is scored.

        Raises AnswerError.
        """
        highest = int(answer_BT.max()) if answer_BT.numel() else -1
        if highest >= count:
            raise AnswerError("answer", highest, f"number the {count} answers of the pass from 0")
        scored_BT = answer_BT >= 0
        return cls(scored_BT, answer_BT[scored_BT].long(), count)

    def pick(self, x_BT: Tensor) -> Tensor:
        """x_N: what a table says of the scored tokens, in float64. Raises AnswerError."""
        if x_BT.shape != self.scored_BT.shape:
            shape = tuple(self.scored_BT.shape)
            raise AnswerError(
                "table", tuple(x_BT.shape), f"give {shape}, like the answers' numbers"
            )
        return x_BT[self.scored_BT].double()

    def sums(self, x_N: Tensor) -> Tensor:
        """x_A: the sum over each answer's tokens; 0 for an answer without."""
        return x_N.new_zeros(self.count).index_add(0, self.answer_N, x_N)

    def tokens(self) -> Tensor:
        """tokens_A: how many tokens of each answer are scored, int64."""
        return torch.bincount(self.answer_N, minlength=self.count)

    def means(self, x_N: Tensor) -> Tensor:
        """x_A: the mean over each answer's tokens; 0 for an answer without."""
        return self.sums(x_N) / self.tokens().clamp(min=1)


def answer_sums(logp_BT: Tensor, answer_BT: Tensor, answers: int) -> tuple[Tensor, Tensor]:
    """(logp_A, tokens_A): each answer's log-probability in nats, float64, and its scored tokens, int64.

    ``logp_BT``: of tokens at their own places; the gradient flows back to it. ``answer_BT``: to which of the
    pass's ``answers`` each token belongs, from 0; -1: to none. Raises AnswerError.
    """
    of = Answers.of(answer_BT.to(logp_BT.device), answers)
    return of.sums(of.pick(logp_BT)), of.tokens()
