"""One step of the authors' StreamBP (PyPI `streambp`, MIT), measured like every other case.

    benchmarks/peers/.venv/bin/python -m benchmarks.peers.reference_streambp CASE

It trains the same Qwen3-type model with the same weights on the same tokens, in chunks of the
case's lengths. It takes the mean of N - 1 losses over N, so its loss is known to be off by 1 / N of
itself. It makes its own backward pass inside its forward pass.
"""

import json
import sys
from dataclasses import asdict

import torch
from streambp.stream_model import StreamModel
from torch import Tensor

from benchmarks.cases import Case
from benchmarks.measuring import Step, measured, model_of, random_ids


def reference_step(case: Case) -> Step:
    """A whole step of the reference: it runs backward before it gives its loss."""
    model = StreamModel(
        model_of(case),
        gradient_accumulation_steps=1,
        logits_chunk_size=case.head_chunk_tokens,
        checkpoint_chunk_size=case.chunk_tokens,
    )
    model.gradient_checkpointing_enable()
    model.train()

    def step(ids_BT: Tensor) -> float:
        # Without a mask of ones it looks for one of an earlier call.
        mask_BT = torch.ones_like(ids_BT)
        return model(ids_BT, attention_mask=mask_BT, labels=ids_BT, use_cache=False).loss.item()

    return step


if __name__ == "__main__":
    given = Case.parse(sys.argv[1])
    torch.set_num_threads(given.threads)
    print(json.dumps(asdict(measured(given, reference_step(given), random_ids(given)))))
