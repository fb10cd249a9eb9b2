"""Sampling answers from the policy that learns.

`Sampler` is what the trainer asks for and the seam for another engine; `PolicySampler` is ours.
"""

from core.rollout.draws import Stream
from core.rollout.errors import RolloutError, SamplingError, UndecodableError
from core.rollout.policy import PolicySampler
from core.rollout.sampler import Answer, Sampler, Sampling
from core.rollout.stops import stop_ids

__all__ = [
    "Answer",
    "PolicySampler",
    "RolloutError",
    "Sampler",
    "Sampling",
    "SamplingError",
    "Stream",
    "UndecodableError",
    "stop_ids",
]
