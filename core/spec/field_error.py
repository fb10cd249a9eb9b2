"""The one form in which a room of the core tells its caller what was wrong."""


class FieldError(ValueError):
    """A fault of the caller: `field` was wrong, `value` is what it was, `remedy` what to do."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy
