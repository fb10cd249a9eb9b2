"""What the test has put ready for a client, and how the items use it."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import openai
from openai import OpenAI

POLL_S = 0.1
LIMIT_S = 120


class Case:
    """The service under ``told["url"]``, whose project belongs to this client alone."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self._files: dict[str, str] = {}

    @cached_property
    def client(self) -> OpenAI:
        return self.open()

    @cached_property
    def owner(self) -> OpenAI:
        """A client of the project whose job a real worker has trained."""
        return self.open(self.told["trained"]["key"])

    @property
    def trained(self) -> str:
        return self.told["trained"]["job"]

    def open(self, key: str | None = None, url: str | None = None, **options: Any) -> OpenAI:
        options = {"max_retries": 0, **options}
        return OpenAI(api_key=key or self.told["key"], base_url=url or self.told["url"], **options)

    def rows(self, shape: str) -> Path:
        """A file of rows: `chat`, `pairs`, `prompts` or `broken`."""
        return Path(self.told["rows"][shape])

    def file(self, shape: str) -> str:
        """The id of such a file, uploaded and checked."""
        if shape not in self._files:
            sent = self.client.files.create(file=self.rows(shape), purpose="fine-tune")
            checked = self.client.files.wait_for_processing(
                sent.id, poll_interval=POLL_S, max_wait_seconds=LIMIT_S
            )
            assert checked.status == "processed", checked
            self._files[shape] = sent.id
        return self._files[shape]

    def create(self, shape: str = "chat", client: OpenAI | None = None, **asked: Any) -> Any:
        """A job on such rows."""
        jobs = (client or self.client).fine_tuning.jobs
        return jobs.create(model="org/toy", training_file=self.file(shape), **asked)


def refused(kind: type[openai.APIStatusError], call: Callable[[], object]) -> Any:
    """The error of this very class that ``call`` must raise."""
    try:
        given = call()
    except openai.APIStatusError as error:
        if type(error) is not kind:
            raise
        return error
    raise AssertionError(f"{kind.__name__} was expected, but there is {given!r}")
