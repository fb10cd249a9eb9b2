"""The model as it was before training, for those objectives that measure how far the policy has gone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from transformers import PreTrainedModel

from core.models.adapter import without_adapter
from core.spec.adapter import FullSpec
from core.spec.job import JobSpec
from core.streambp import attach
from core.train.lessons.lesson import Base
from core.train.weights import load_weights


def base_of(spec: JobSpec, source: str, model: PreTrainedModel) -> Base:
    """The base of the attached ``model`` that ``spec`` trains: beside an adapter it is in it already."""
    if not isinstance(spec.trainer.adapter, FullSpec):
        return partial(without_adapter, model)
    chunk_tokens = spec.trainer.stream.chunk_tokens
    assert chunk_tokens != "auto", "it was chosen"
    load = partial(load_weights, source, model.device, spec.trainer.precision)
    return BaseModel(load, chunk_tokens)


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
