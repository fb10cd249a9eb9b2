"""What cannot be spread over devices: told from the spec alone."""

from core.spec.problems import Problem
from core.spec.trainer import TrainerSpec
from core.spec.tree import SpecError

DEVICES = "trainer.parallel.devices"


def check_parallel(trainer: TrainerSpec, batch_size: int) -> None:
    """Raise SpecError with all that one device can do and several cannot."""
    devices, strategy = trainer.parallel.devices, trainer.parallel.strategy
    if devices == 1:
        return
    problems = []
    if batch_size < devices:
        message = (
            f"{devices} devices share the rows of a step, which has {batch_size}; set "
            f"hyperparameters.batch_size to at least {devices}, or fewer devices"
        )
        problems.append(_problem(DEVICES, message))
    if trainer.precision == "int8":
        message = "int8 weights are trained on one device; choose bfloat16, or parallel.devices: 1"
        problems.append(_problem("trainer.precision", message))
    if getattr(trainer.optimizer, "projection", None) == "svd":
        message = (
            "svd looks at a whole gradient, which no device has; choose gaussian or rademacher"
        )
        problems.append(_problem("trainer.optimizer.projection", message))
    if strategy == "fsdp" and trainer.adapter.kind == "lora":
        message = "an adapter is trained on replicas of its base; choose parallel.strategy: ddp"
        problems.append(_problem("trainer.parallel.strategy", message))
    if problems:
        raise SpecError(problems)


def _problem(path: str, message: str) -> Problem:
    return Problem(path, message, "invalid_value")
