"""Whether a job can learn from the file that it names, as far as the file's report tells."""

from collections.abc import Mapping
from typing import Any

from core.data.fitness import KIND_OF_SHAPE, why_unfit
from core.spec.errors import JobError
from core.spec.job import JobSpec


def unfit_file(spec: JobSpec, param: str, report: Mapping[str, Any]) -> JobError | None:
    """Why the objective of ``spec`` cannot learn from the file in its field ``param``, or None.

    ``report`` is a `Report` as it was stored. One without a known shape says nothing against a file: the
    trainer reads every row again.
    """
    known = [shape for shape in KIND_OF_SHAPE if shape == report.get("shape")]
    if not known:
        return None
    objective = spec.trainer.objective.kind
    misfit = why_unfit(known[0], objective, param=param, name=getattr(spec, param))
    if misfit is None:
        return None
    return JobError(code=misfit.code, param=param, message=misfit.message, hint=misfit.hint)
