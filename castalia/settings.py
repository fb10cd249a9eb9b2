"""Settings from the environment, with an error that a person can act on."""

import os
from typing import TypeVar

from pydantic import ValidationError

from castalia.errors import CastaliaError
from core.store.settings import ServiceSettings

S = TypeVar("S", bound=ServiceSettings)


class SettingsError(CastaliaError):
    """A ``CASTALIA_*`` variable that is missing or cannot be read."""

    exit_code = 2


def read_settings(kind: type[S]) -> S:
    """The settings of a process. Raises SettingsError naming the variable."""
    try:
        return kind()
    except ValidationError as error:
        fault = error.errors()[0]
        name = "CASTALIA_" + str(fault["loc"][0]).upper()
        if fault["type"] == "missing":
            description = kind.model_fields[str(fault["loc"][0])].description
            raise SettingsError(f"{name} is not set", f"set it to {description}") from None
        value = os.environ.get(name, "")
        raise SettingsError(f"{name} is {value!r}: {fault['msg']}", "correct it") from None
