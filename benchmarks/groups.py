"""One training step on several answers to one prompt: each in a row of its own, or the prompt once.

DPO (arXiv 2305.18290) has two answers, GRPO (arXiv 2402.03300) a group of them. Both objectives are
functions of the per-token log-probabilities of the answers alone, so they do not see which of the
two ways made these. Either way nothing but answers is scored, nothing is padded, and a chunk holds
the same number of tokens in all.

Legend: G answers, P tokens of the prompt, A of an answer, B rows, T tokens of a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from benchmarks.cases import Case
from core.streambp import Layout, answer_logps, attach

SHARED, UNSHARED = "shared", "unshared"
BETA = 0.1
CLIP = 0.2


def dpo_loss(logp_GA: Tensor, other_GA: Tensor) -> Tensor:
    """-log sigmoid(beta (chosen - rejected)), each an answer's sum above that of the reference."""
    chosen, rejected = (logp_GA - other_GA).sum(1)
    return -functional.logsigmoid(BETA * (chosen - rejected))


def grpo_loss(logp_GA: Tensor, other_GA: Tensor) -> Tensor:
    """The clipped surrogate, its mean over tokens; rewards are 0, 1, 2, ... in order of answers."""
    reward_G1 = torch.arange(len(logp_GA), device=logp_GA.device, dtype=logp_GA.dtype)[:, None]
    advantage_G1 = (reward_G1 - reward_G1.mean()) / reward_G1.std()
    ratio_GA = (logp_GA - other_GA).exp()
    clipped_GA = ratio_GA.clamp(1 - CLIP, 1 + CLIP)
    return -torch.minimum(ratio_GA * advantage_G1, clipped_GA * advantage_G1).mean()


@dataclass(frozen=True, slots=True)
class Kind:
    """`answers` to a prompt, each 1 / `parts` of prompt and answer together.

    `loss_of` takes the log-probabilities of the model and of another: a reference, or what sampled.
    """

    answers: int
    parts: int
    loss_of: Callable[[Tensor, Tensor], Tensor]

    def prompt_tokens(self, tokens: int) -> int:
        """How many of a row's tokens are the prompt's."""
        return tokens - tokens // self.parts


KINDS = {"dpo": Kind(2, 4, dpo_loss), "grpo": Kind(8, 5, grpo_loss)}
MODES = [f"{name}/{how}" for name in KINDS for how in (UNSHARED, SHARED)]


def rows_of(mode: str) -> int:
    """How many rows of tokens a case of this mode is about."""
    kind = KINDS.get(mode.split("/", maxsplit=1)[0])
    return 1 if kind is None else kind.answers


def grouped_step(case: Case, model: PreTrainedModel) -> Callable[[Tensor], float]:
    """The step of a mode of `MODES`, on ids_GT; of their prompts only the first row's is taken.

    The other model of the objective is uniform over the vocabulary. Gives the loss.
    """
    name, how = case.mode.split("/")
    kind = KINDS[name]
    at_once = kind.answers if how == UNSHARED else 1
    attach(model, chunk_tokens=max(case.chunk_tokens // at_once, 1))

    def step(ids_GT: Tensor) -> float:
        rows = (_packed if how == SHARED else _apart)(ids_GT, kind.prompt_tokens(ids_GT.shape[1]))
        logp_BT = answer_logps(
            model,
            rows.ids_BT,
            rows.scored_BT,
            rows.layout,
            head_chunk_tokens=case.head_chunk_tokens,
        )
        logp_GA = logp_BT[rows.scored_BT].view(len(ids_GT), -1)
        uniform_GA = torch.full_like(logp_GA, -math.log(case.shape.vocabulary))
        loss = kind.loss_of(logp_GA, uniform_GA)
        loss.backward()
        return loss.item()

    return step


@dataclass(frozen=True, slots=True)
class _Rows:
    """What answer_logps is given; the scored tokens are those of the answers, in order."""

    ids_BT: Tensor
    scored_BT: Tensor
    layout: Layout


def _apart(ids_GT: Tensor, prompt: int) -> _Rows:
    """Every answer in a row of its own, after the prompt: one batch without padding."""
    rows, tokens = ids_GT.shape
    ids_GT = torch.cat([ids_GT[:1, :prompt].expand(rows, -1), ids_GT[:, prompt:]], dim=1)
    scored_GT = torch.zeros_like(ids_GT, dtype=torch.bool)
    scored_GT[:, prompt:] = True
    return _Rows(ids_GT, scored_GT, Layout.causal([tokens] * rows, tokens))


def _packed(ids_GT: Tensor, prompt: int) -> _Rows:
    """The prompt, then all answers, in one row."""
    answers_GA = ids_GT[:, prompt:]
    ids_1T = torch.cat([ids_GT[:1, :prompt], answers_GA.reshape(1, -1)], dim=1)
    scored_1T = torch.zeros_like(ids_1T, dtype=torch.bool)
    scored_1T[:, prompt:] = True
    lengths = [answers_GA.shape[1]] * len(ids_GT)
    return _Rows(ids_1T, scored_1T, Layout.shared_prefix(prompt, lengths, ids_1T.shape[1]))
