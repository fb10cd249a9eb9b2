"""The words of Castalia: what a user may ask for, what a run reports, what can go wrong.

Pydantic only; nothing here knows a database, HTTP or a tensor, so every process can import it.
"""

from core.spec.errors import ExitCode, Fault, JobError, RunFailure
from core.spec.job import Hyperparameters, JobSpec
from core.spec.model import ModelFacts
from core.spec.trainer import TrainerSpec

__all__ = [
    "ExitCode",
    "Fault",
    "Hyperparameters",
    "JobError",
    "JobSpec",
    "ModelFacts",
    "RunFailure",
    "TrainerSpec",
]
