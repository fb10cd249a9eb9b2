"""The model as it was before training, for those objectives that measure how far the policy has gone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel

from core.streambp import attach


class BaseModel:
    """A second, frozen model, loaded when it is first asked for and held from then on."""

    def __init__(self, load: Callable[[], PreTrainedModel], chunk_tokens: int) -> None:
        self._load = load
        self._chunk_tokens = chunk_tokens
        self._model: PreTrainedModel | None = None

    @contextmanager
    def __call__(self) -> Iterator[PreTrainedModel]:
        """The attached model, in evaluation mode, inside the block."""
        if self._model is None:
            self._model = self._load().requires_grad_(requires_grad=False).eval()
            attach(self._model, chunk_tokens=self._chunk_tokens)
        yield self._model
