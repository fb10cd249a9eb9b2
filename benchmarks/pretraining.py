"""One run of `benchmarks.quality`: a small Llama from nothing, by one optimizer at one learning rate.

    python -m benchmarks.pretraining CASE

CASE is the JSON of a PretrainingCase. The last line that is printed is a JSON object: validation losses by
step, in nats a token. Initial weights and the order of rows depend on the seed alone, so that all
optimizers begin alike and see the same. AdamW's gradients are clipped to a global norm of 1, as it is
run in practice; APOLLO has its own limiter, and SCALE's updates have one length.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.corpus import corpus
from core.optim import cosine, quantise_model
from core.spec.optimizer import AdamWSpec, OptimizerSpec
from core.spec.trainer import Precision
from core.train.optimizer import optimizer_of

VOCABULARY, ROW_TOKENS, ROWS_PER_STEP = 1024, 256, 8
WARMUP_RATIO, FLOOR_RATIO = 0.1, 0.1
CLIP_NORM = 1.0
EVALUATIONS = 10


@dataclass(frozen=True, slots=True)
class PretrainingCase:
    """`optimizer` is what a job's `trainer.optimizer` may be; a pass over the text is 632 steps."""

    optimizer: dict[str, Any]
    precision: Precision
    rate: float
    seed: int = 0
    steps: int = 400
    hidden: int = 192
    layers: int = 4
    validation_rows: int = 128

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a case from the JSON of `asdict`."""
        return cls(**json.loads(text))

    def model(self) -> LlamaForCausalLM:
        """Make the model, of 2.2 million parameters unless told otherwise."""
        torch.manual_seed(self.seed)
        config = LlamaConfig(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.hidden // 32,
            intermediate_size=self.hidden * 8 // 3,
            vocab_size=VOCABULARY,
            max_position_embeddings=ROW_TOKENS,
        )
        model = LlamaForCausalLM(config)
        if self.precision == "int8":
            quantise_model(model)
        return model


def main() -> int:
    """Train and print."""
    torch.set_num_threads(1)
    print(json.dumps(trained(PretrainingCase.parse(sys.argv[1]))))
    return 0


def trained(case: PretrainingCase) -> dict[str, Any]:
    """Run a case to its end."""
    text = corpus(VOCABULARY, ROW_TOKENS)
    validation_RT = text.validation_RT[: case.validation_rows]
    steps = case.steps
    model = case.model()
    chosen: OptimizerSpec = TypeAdapter(OptimizerSpec).validate_python(case.optimizer)
    optimizer = optimizer_of(chosen, model, rate=case.rate, seed=case.seed)
    batches = _batches(text.train_RT, case.seed)
    began, curve = time.process_time(), [(0, mean_loss(model, validation_RT))]
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = case.rate * cosine(step, steps, round(WARMUP_RATIO * steps), FLOOR_RATIO)
        loss(model, next(batches)).backward()
        if isinstance(chosen, AdamWSpec):
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % max(1, steps // EVALUATIONS) == 0 or step + 1 == steps:
            curve.append((step + 1, mean_loss(model, validation_RT)))
    return {
        "parameters": sum(param.numel() for param in model.parameters()),
        "tokens": steps * ROWS_PER_STEP * ROW_TOKENS,
        "curve": curve,
        "cpu_s": round(time.process_time() - began),
    }


def loss(model: LlamaForCausalLM, rows_BT: Tensor) -> Tensor:
    """Mean negative log-probability of each token after a row's first, in nats."""
    found: Tensor = model(rows_BT, labels=rows_BT, use_cache=False).loss
    return found


@torch.no_grad()
def mean_loss(model: LlamaForCausalLM, rows_RT: Tensor) -> float:
    """The same over many rows."""
    parts = rows_RT.split(2 * ROWS_PER_STEP)
    return sum(loss(model, part_BT).item() * len(part_BT) for part_BT in parts) / len(rows_RT)


def _batches(rows_RT: Tensor, seed: int) -> Iterator[Tensor]:
    """Rows in an order of the seed's, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order_R = torch.randperm(len(rows_RT), generator=generator)
        for chosen_B in order_R.split(ROWS_PER_STEP):
            if len(chosen_B) == ROWS_PER_STEP:
                yield rows_RT[chosen_B]


if __name__ == "__main__":
    sys.exit(main())
