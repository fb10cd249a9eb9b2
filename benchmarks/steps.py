"""One training step of one case, measured: `python -m benchmarks.steps CASE` prints one JSON object.

Weights and their gradients are there before the measurement begins, and a step over a few tokens
has been made, so that what is measured is what the sequence costs. On the CPU the peak is the
process's own (VmHWM, reset through /proc); on a GPU it is the allocator's.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from benchmarks.cases import CHECKPOINTING, CHUNKED_CE, OURS, PEERS, Case, Measured
from benchmarks.groups import MODES as GROUPED
from benchmarks.groups import grouped_step, rows_of
from core.streambp import Layout, attach, backward_linear
from core.streambp.policy import Keep, StoreName

WARM_UP_TOKENS = 128
KIB = 1024

Step = Callable[[Tensor], float]


def policies(device: str) -> list[str]:
    """Modes of ours: every keep, on the device; and the least keep in every other store.

    On a CPU the store `cpu` is the device, and is left out.
    """
    keeps, stores = get_args(Keep), get_args(StoreName)
    elsewhere = [store for store in stores if store not in ("device", device)]
    return [f"{OURS}/{keep}/device" for keep in keeps] + [
        f"{OURS}/{keeps[0]}/{store}" for store in elsewhere
    ]


def model_of(case: Case) -> PreTrainedModel:
    """A model with random weights, and gradients of zeros."""
    shape = case.shape
    config = Qwen3Config(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.head_width,
        vocab_size=shape.vocabulary,
        max_position_embeddings=2**20,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).to(case.device, getattr(torch, case.dtype))
    model.set_attn_implementation("sdpa")
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model.train()


def step_of(case: Case, model: PreTrainedModel) -> Step:
    """The forward and backward pass of the case's mode; gives its loss, in nats a token."""
    if case.mode.startswith(OURS):
        return _streamed(case, model)
    if case.mode in GROUPED:
        return grouped_step(case, model)
    if case.mode not in PEERS:
        raise ValueError(f"mode {case.mode!r}: use one of {', '.join(PEERS)} or {OURS}/KEEP/STORE")
    if case.mode in (CHECKPOINTING, CHUNKED_CE):
        model.activation_checkpointing_enable({"use_reentrant": False})
    loss_of = _chunked_loss if case.mode == CHUNKED_CE else _whole_loss

    def step(ids_BT: Tensor) -> float:
        loss = loss_of(model, ids_BT)
        loss.backward()
        return loss.item()

    return step


def _whole_loss(model: PreTrainedModel, ids_BT: Tensor) -> Tensor:
    return model(input_ids=ids_BT, labels=ids_BT, use_cache=False).loss


def _chunked_loss(model: Any, ids_BT: Tensor) -> Tensor:
    hidden_BTD = model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
    return functional.linear_cross_entropy(
        hidden_BTD[0, :-1],
        model.lm_head.weight,
        ids_BT[0, 1:],
        options=torch.nn.LinearCrossEntropyOptions(),
    )


def _streamed(case: Case, model: PreTrainedModel) -> Step:
    _, keep, store = case.mode.split("/")
    wishes = {"keep": keep, "store": store}
    folder = tempfile.gettempdir() if store == "disk" else None
    attach(model, chunk_tokens=case.chunk_tokens, folder=folder, **wishes)  # type: ignore[arg-type]

    def step(ids_BT: Tensor) -> float:
        targets_BT = functional.pad(ids_BT[:, 1:], (0, 1), value=-100)
        weight = -1 / (ids_BT.shape[1] - 1)
        logp_BT = backward_linear(
            model,
            ids_BT,
            targets_BT,
            Layout.causal([ids_BT.shape[1]], ids_BT.shape[1]),
            torch.full(ids_BT.shape, weight, device=ids_BT.device),
            head_chunk_tokens=case.head_chunk_tokens,
        )
        return logp_BT.sum().item() * weight

    return step


def ids_of(case: Case) -> Tensor:
    """Random tokens: as many rows as the case's mode takes, the same in every run."""
    return torch.randint(
        0,
        case.shape.vocabulary,
        (rows_of(case.mode), case.tokens),
        generator=torch.Generator().manual_seed(1),
    ).to(case.device)


def measure(case: Case) -> Measured:
    """Build the case's model and measure one step of it."""
    torch.set_num_threads(case.threads)
    step = step_of(case, model_of(case))
    ids_BT = ids_of(case)
    step(ids_BT[:, :WARM_UP_TOKENS])
    peak = PeakOfDevice() if case.device.startswith("cuda") else PeakOfProcess()
    cpu, wall = time.process_time(), time.perf_counter()
    loss = step(ids_BT)
    memory = peak.bytes_above_start()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(case.mode, case.tokens, memory, cpu, wall, loss)


class PeakOfProcess:
    """Resident memory of this process from now on; Linux only."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._start = _status("VmRSS")

    def bytes_above_start(self) -> int:
        """The most since the start, less what there was then."""
        return _status("VmHWM") - self._start


class PeakOfDevice:
    """Memory that torch has given out on the GPU from now on."""

    def __init__(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self._start = torch.cuda.memory_allocated()

    def bytes_above_start(self) -> int:
        """As PeakOfProcess; waits for the device first."""
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - self._start


def _status(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(found[1]) * KIB


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Case.parse(sys.argv[1])))))
