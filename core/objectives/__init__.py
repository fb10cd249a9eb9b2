"""Objectives: pure functions of per-token log-probabilities.

`objective(logp_BT, …) -> Loss`: what is learnt, and nothing of how. The engine computes the table in chunks,
autograd on that small table gives the objective's gradient, and the engine walks it back; so every objective
shares one exact backward. Normalisers are counts fixed before the backward: never an average of averages.
"""

from core.objectives.advantages import Advantages, advantages
from core.objectives.answers import answer_sums
from core.objectives.dpo import dpo
from core.objectives.errors import (
    AnswerError,
    BaselineError,
    NormaliserError,
    ObjectiveError,
    RewardError,
)
from core.objectives.grpo import grpo, step_normaliser
from core.objectives.linear import linear_weight
from core.objectives.loss import Loss
from core.objectives.pretrain import pretrain
from core.objectives.sft import sft

__all__ = [
    "Advantages",
    "AnswerError",
    "BaselineError",
    "Loss",
    "NormaliserError",
    "ObjectiveError",
    "RewardError",
    "advantages",
    "answer_sums",
    "dpo",
    "grpo",
    "linear_weight",
    "pretrain",
    "sft",
    "step_normaliser",
]
