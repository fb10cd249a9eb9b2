"""The model and the tokens of a case, and how a step on them is measured.

Nothing of the core is imported, and nothing that is new in transformers: a peer that needs an old
one is measured by the same lines, in an environment of its own.

Weights and their gradients are there before the measurement begins, and a step over a few tokens
has been made, so that what is measured is what the sequence costs. On the CPU the peak is the
process's own (VmHWM, reset through /proc); on a GPU it is the allocator's.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from benchmarks.cases import Case, Measured, Shape

WARM_UP_TOKENS = 128
KIB = 1024

Step = Callable[[Tensor], float]


def config_of(shape: Shape) -> Qwen3Config:
    """The configuration of a shape."""
    return Qwen3Config(
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


def model_of(case: Case) -> PreTrainedModel:
    """The model of the case's shape, its weights random but always the same, its gradients zeros."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of(case.shape), attn_implementation="sdpa")
    model = model.to(case.device, getattr(torch, case.dtype))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model.train()


def random_ids(case: Case, rows: int = 1) -> Tensor:
    """Random tokens, the same in every run."""
    return torch.randint(
        0,
        case.shape.vocabulary,
        (rows, case.tokens),
        generator=torch.Generator().manual_seed(1),
    ).to(case.device)


def measured(case: Case, step: Step, ids_BT: Tensor) -> Measured:
    """Warm up, and measure the case's steps."""
    step(ids_BT[:, :WARM_UP_TOKENS])
    peak = PeakOfDevice() if case.device.startswith("cuda") else PeakOfProcess()
    loss, *first = _timed(step, ids_BT)
    memory = peak.bytes_above_start()
    times = [first, *(_timed(step, ids_BT)[1:] for _ in range(case.steps - 1))]
    cpu, wall = map(min, zip(*times, strict=True))
    return Measured(case.mode, case.tokens, memory, cpu, wall, loss)


def _timed(step: Step, ids_BT: Tensor) -> tuple[float, float, float]:
    """Give the loss, CPU seconds and wall seconds of a step."""
    cpu, wall = time.process_time(), time.perf_counter()
    loss = step(ids_BT)
    if ids_BT.is_cuda:
        torch.cuda.synchronize()
    return loss, time.process_time() - cpu, time.perf_counter() - wall


class PeakOfProcess:
    """Resident memory of this process from now on; Linux only."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.start = _status("VmRSS")

    def bytes_above_start(self) -> int:
        """The most since the start, less what there was then."""
        return _status("VmHWM") - self.start


class PeakOfDevice:
    """Memory that torch has given out on the GPU from now on."""

    def __init__(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self.start = torch.cuda.memory_allocated()

    def bytes_above_start(self) -> int:
        """As PeakOfProcess; waits for the device first."""
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - self.start


def _status(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(found[1]) * KIB
