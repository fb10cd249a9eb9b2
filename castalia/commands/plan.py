"""`castalia plan`: what a training step needs in memory, and the longest context that fits.

Only the configuration is read; no weights are loaded and no GPU is needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from castalia.commands.train import TorchMissingError
from castalia.errors import CastaliaError

if TYPE_CHECKING:
    from core.streambp.plan import MemoryPlan

GIB = 2**30
WIDTH = 100
ROWS = (
    "weights",
    "gradients",
    "optimizer",
    "kept_states",
    "hidden",
    "keys_values",
    "chunk",
    "head",
)


class NoPlanError(CastaliaError):
    """A model or a budget of which no plan can be made."""


def plan(  # noqa: PLR0913, PLR0917  every option is a line of the question
    model: Annotated[Path, typer.Option(help="A folder with config.json, or that file.")],
    device_gib: Annotated[float, typer.Option(min=0.0, help="Memory of the device, in GiB.")],
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens a row; default: the longest that fits.")
    ] = None,
    optimizer: Annotated[
        Literal["apollo_mini", "apollo", "adamw", "sgd"], typer.Option(help="As in a spec.")
    ] = "apollo_mini",
    precision: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="Of weights and activations.")
    ] = "bfloat16",
    embeddings: Annotated[
        Literal["adamw", "apollo"], typer.Option(help="As in a spec: of embeddings and head.")
    ] = "adamw",
    keep: Annotated[
        Literal["hidden", "hidden+attention", "hidden+kv"], typer.Option(help="What a layer keeps.")
    ] = "hidden",
    store: Annotated[
        Literal["device", "cpu", "disk"], typer.Option(help="Where it keeps it.")
    ] = "device",
    fused: Annotated[
        bool, typer.Option("--fused", help="Step each layer inside the backward pass.")
    ] = False,
    chunk_tokens: Annotated[int, typer.Option(min=1, help="Tokens a layer sees at once.")] = 2048,
    head_chunk_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens with logits at once.")
    ] = 256,
) -> None:
    """Show what training MODEL needs in memory, by component, and the longest context that fits."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    import torch
    from transformers.utils import logging

    from core.streambp.errors import StreamError
    from core.streambp.plan import Wish, longest_context, memory_plan
    from core.streambp.plan_probe import footprint

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    dtype = getattr(torch, precision)
    config = _config(model)
    try:
        cost = _step_cost(config, dtype, optimizer, embeddings)
        wish = Wish(head_chunk_tokens, 1, keep, store, fused=fused, step=cost)
        found = footprint(config, dtype=dtype, chunk_tokens=chunk_tokens)
        longest = longest_context(found, wish, int(device_gib * GIB))
        shown = memory_plan(found, context or longest, wish)
    except StreamError as error:
        raise NoPlanError(_budget(error, device_gib), _remedy(error)) from error
    except (ValueError, TypeError, RuntimeError) as error:  # of a foreign model's constructor
        raise NoPlanError(f"{model} cannot be planned for", str(error)) from error
    console = Console(width=WIDTH)
    console.print(table(shown))
    if shown.checkpointed_layers:
        console.print(f"{shown.checkpointed_layers} layers are checkpointed whole: no chunks there")
    console.print(_verdict(shown, longest, device_gib))


def table(shown: "MemoryPlan") -> Table:
    """GiB by component and phase; the peak is the largest total."""
    title = f"{shown.model_type}, {shown.tokens:,} tokens, keep {shown.keep}, store {shown.store}"
    drawn = Table("GiB on the device", *(phase.name for phase in shown.phases), title=title)
    for column in drawn.columns[1:]:
        column.justify = "right"
    for name in (*ROWS, "margin"):
        values = [getattr(phase, name) for phase in shown.phases]
        drawn.add_row(name.replace("_", " "), *(f"{value / GIB:.2f}" for value in values))
    drawn.add_section()
    drawn.add_row("total", *(f"{phase.total / GIB:.2f}" for phase in shown.phases))
    return drawn


def _verdict(shown: "MemoryPlan", longest: int, device_gib: float) -> str:
    need = f"peak {shown.total / GIB:.2f} GiB in phase '{shown.peak.name}'"
    fits = "fits" if shown.total <= device_gib * GIB else "does not fit"
    return (
        f"{shown.tokens:,} tokens: {need}: {fits} into {device_gib:g} GiB\n"
        f"longest context: {longest:,} tokens"
    )


def _config(model: Path) -> Any:
    from transformers import AutoConfig

    path = model / "config.json" if model.is_dir() else model
    if not path.is_file():
        raise NoPlanError(f"there is no file {path}", "give a model's folder or its config.json")
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NoPlanError(f"{path} cannot be read", str(error)) from error


def _step_cost(
    config: Any, dtype: Any, optimizer: str, embeddings: Literal["adamw", "apollo"]
) -> Any:
    """What the optimizer holds, from the states that it would make; and its working copies."""
    import torch

    from core.optim import APOLLO, APOLLO_MINI, parameter_groups
    from core.optim.state import fresh_state
    from core.streambp.plan import StepCost
    from core.streambp.plan_probe import meta_model

    model = meta_model(config, dtype)
    largest = max(p.numel() for p in model.parameters())
    if optimizer == "sgd":
        return StepCost(0, 0)
    if optimizer == "adamw":  # torch's: two moments in the weights' dtype, whole tensors at a time
        return StepCost(2 * sum(p.numel() for p in model.parameters()) * dtype.itemsize, 0)
    rank = {"apollo": APOLLO, "apollo_mini": APOLLO_MINI}[optimizer]["rank"]
    states = [
        fresh_state(parameter, group.get("rank", rank))
        for group in parameter_groups(model, embeddings=embeddings)
        for _, parameter in group["params"]
    ]
    tensors = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
    held = sum(x.numel() * x.element_size() for x in tensors)
    return StepCost(held, 3 * largest * torch.float32.itemsize)  # gradient, update, new weight


def _budget(error: Any, device_gib: float) -> str:
    if error.field == "budget_bytes":
        return f"{device_gib:g} GiB are too few"
    return f"{error.field} = {error.value!r}"


def _remedy(error: Any) -> str:
    if error.field == "budget_bytes":
        return f"{error.remedy}; try --fused, --embeddings apollo or smaller chunks"
    return str(error.remedy)
