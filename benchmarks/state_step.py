"""Steps of one case of `benchmarks.state` in a process of its own, and the most memory they take.

    python -m benchmarks.state_step CASE

Counted is the process's memory above what stood there before the model was built, at the peak of the
second step: weights, gradients, the optimizer's state and all that comes and goes.
"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from benchmarks.measuring import PeakOfProcess
from core.optim import FusedStep, NamedOptimizer, quantise_model
from core.spec.optimizer import ApolloMiniSpec
from core.spec.trainer import Precision
from core.streambp import Layout, attach, backward_linear
from core.train.optimizer import named_optimizer
from core.train.weights import computing_dtype

MINI = ApolloMiniSpec(embeddings="apollo")


@dataclass(frozen=True, slots=True)
class StateCase:
    """Equal layers and a small vocabulary, so that layers are what is counted."""

    optimizer: Literal["adamw", "apollo_mini"]
    precision: Precision
    step: Literal["fused", "two_phase"]
    hidden: int = 1024
    intermediate: int = 2816
    layers: int = 24
    vocabulary: int = 512
    tokens: int = 32
    chunk_tokens: int = 32
    head_chunk_tokens: int = 32

    @property
    def name(self) -> str:
        """As in the report's keys."""
        fused = "_fused" if self.step == "fused" else ""
        return f"{self.optimizer}{fused}_{self.precision}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a case from the JSON of `asdict`."""
        return cls(**json.loads(text))

    def config(self) -> Qwen3Config:
        """The model's configuration."""
        return Qwen3Config(
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.hidden // 64,
            num_key_value_heads=self.hidden // 128,
            head_dim=64,
            vocab_size=self.vocabulary,
            tie_word_embeddings=False,
        )


@dataclass(frozen=True, slots=True)
class StateMeasured:
    """Parameters, and bytes at the peak."""

    name: str
    parameters: int
    peak_bytes: int


def measure(case: StateCase) -> StateMeasured:
    """Warm up on a single layer, build the model, step twice."""
    torch.set_num_threads(1)
    warm = StateCase(case.optimizer, case.precision, case.step, hidden=128, layers=1)
    _Trainer(warm).step()
    whole = PeakOfProcess()
    trainer = _Trainer(case)
    trainer.step()
    built = PeakOfProcess()  # resets the peak: building a model takes its own
    trainer.step()
    above = built.bytes_above_start() + built.start - whole.start
    return StateMeasured(case.name, sum(p.numel() for p in trainer.model.parameters()), above)


class _Trainer:
    """A model in training, of random weights and tokens."""

    def __init__(self, case: StateCase) -> None:
        self.case = case
        torch.manual_seed(0)
        dtype = computing_dtype(case.precision, "cpu")
        self.model: PreTrainedModel = AutoModelForCausalLM.from_config(case.config(), dtype=dtype)
        self.model.train()
        if case.precision == "int8":
            quantise_model(self.model)
        self.optimizer = _optimizer(case, self.model)
        self.fused: FusedStep | None = None
        if isinstance(self.optimizer, NamedOptimizer) and case.step == "fused":
            self.fused = FusedStep(self.optimizer)
        attach(self.model, chunk_tokens=case.chunk_tokens)

    def step(self) -> None:
        """Step once on one row."""
        tokens = self.case.tokens
        ids_BT = torch.randint(0, self.case.vocabulary, (1, tokens + 1))
        given: tuple[Tensor, ...] = (ids_BT[:, :-1], ids_BT[:, 1:])
        backward_linear(
            self.model,
            *given,
            Layout.causal([tokens], tokens),
            torch.full((1, tokens), -1 / tokens),
            head_chunk_tokens=self.case.head_chunk_tokens,
            settle=self.fused,
        )
        if self.fused is None:
            self.optimizer.step()
        else:
            self.fused.finish()
        self.optimizer.zero_grad(set_to_none=True)


def _optimizer(case: StateCase, model: PreTrainedModel) -> Any:
    if case.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=1e-5)
    return named_optimizer(MINI, model, rate=1e-5, seed=0)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(StateCase.parse(sys.argv[1])))))
