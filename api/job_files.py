"""Whether the files that a job names can be learnt from, before there is a job."""

from api.errors import ApiError
from core.data.file_check import unfit_file
from core.spec.job import JobSpec
from core.store.database import Session
from core.store.errors import NotFound
from core.store.files import TRAINING_PURPOSE, get_file
from core.store.keys import Principal


def check_files(session: Session, principal: Principal, spec: JobSpec) -> None:
    """Raises ApiError, which names the field and says what is wrong with its file."""
    for param in ("training_file", "validation_file"):
        file_id = getattr(spec, param)
        if file_id is not None:
            _check_file(session, principal, spec, param, file_id)


def _check_file(
    session: Session, principal: Principal, spec: JobSpec, param: str, file_id: str
) -> None:
    try:
        file = get_file(session, principal.project_id, file_id)
    except NotFound as error:
        raise ApiError(400, str(error), code="file_not_found", param=param) from None
    if file.purpose != TRAINING_PURPOSE:
        raise ApiError(
            400,
            f"{param} '{file_id}' has purpose '{file.purpose}'; upload it with purpose "
            f"'{TRAINING_PURPOSE}'",
            code=f"invalid_{param}",
            param=param,
        )
    if file.status == "error":
        raise ApiError(
            400,
            f"{param} '{file_id}' is invalid: {file.status_details}",
            code=f"invalid_{param}",
            param=param,
            details=(file.report or {}).get("problems"),
        )
    misfit = unfit_file(spec, param, file.report or {})
    if misfit is not None:
        raise ApiError(400, misfit.message, code=misfit.code, param=param, hint=misfit.hint)
