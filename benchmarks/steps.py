"""One training step of one case, measured: `python -m benchmarks.steps CASE` prints one JSON object.

Here are the ways to make a step that need nothing but what the engine needs; how a step is measured
is in `measuring`.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from benchmarks.cases import CHECKPOINTING, CHUNKED_CE, OURS, PEERS, Case, Measured
from benchmarks.groups import MODES as GROUPED
from benchmarks.groups import grouped_step, rows_of
from benchmarks.measuring import Step, measured, model_of, random_ids
from core.streambp import Layout, attach, backward_linear
from core.streambp.policy import Keep, StoreName


def policies(device: str) -> list[str]:
    """Modes of ours: every keep, on the device; and the least keep in every other store.

    On a CPU the store `cpu` is the device, and is left out.
    """
    keeps, stores = get_args(Keep), get_args(StoreName)
    elsewhere = [store for store in stores if store not in ("device", device)]
    return [f"{OURS}/{keep}/device" for keep in keeps] + [
        f"{OURS}/{keeps[0]}/{store}" for store in elsewhere
    ]


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


def measure(case: Case) -> Measured:
    """Build the case's model and measure one step of it."""
    torch.set_num_threads(case.threads)
    step = step_of(case, model_of(case))
    return measured(case, step, random_ids(case, rows_of(case.mode)))


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Case.parse(sys.argv[1])))))
