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
    from core.streambp.plan import Footprint, MemoryPlan

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


def _number_or_auto(value: str) -> str:
    if value != "auto" and not (value.isdecimal() and int(value)):
        raise typer.BadParameter("give a whole number of tokens, at least 1, or auto")
    return value


def plan(  # noqa: PLR0913, PLR0917  every option is a line of the question
    model: Annotated[Path, typer.Option(help="A folder with config.json, or that file.")],
    device_gib: Annotated[float, typer.Option(min=0.0, help="Memory of the device, in GiB.")],
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens a row; default: the longest that fits.")
    ] = None,
    optimizer: Annotated[
        Literal["apollo_mini", "apollo", "scale", "adamw", "sgd"],
        typer.Option(help="As in a spec."),
    ] = "apollo_mini",
    precision: Annotated[
        Literal["bfloat16", "float32", "int8"],
        typer.Option(help="In which weights are held; int8 ones compute in bfloat16."),
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
    chunk_tokens: Annotated[
        str, typer.Option(callback=_number_or_auto, help="Tokens a layer sees at once, or auto.")
    ] = "auto",
    head_chunk_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens with logits at once.")
    ] = 256,
) -> None:
    """Show what training MODEL needs in memory, by component, and the longest context that fits."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    from transformers.utils import logging

    from core.streambp.errors import StreamError
    from core.streambp.plan import Wish, best_of, longest_context, memory_plan, meta_model
    from core.train.cost import weighed
    from core.train.weights import computing_dtype

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    dtype, budget = computing_dtype(precision, "cuda"), int(device_gib * GIB)
    config = _config(model)
    try:
        empty = meta_model(config, dtype)
        stepped = _optimizer(optimizer, embeddings, precision, fused=fused)
        wish = Wish(head_chunk_tokens, 1, keep, store, fused=fused)
        wish = weighed(wish, empty, stepped, precision, "cuda")
        ladder = _ladder(config, dtype, chunk_tokens)
        longest = longest_context(ladder[-1], wish, budget)
        tokens = context or longest
        fits = tokens <= longest
        chosen = best_of(ladder, [(1, tokens)], wish, budget) if fits else ladder[-1]
        shown = memory_plan(chosen, tokens, wish)
    except StreamError as error:
        raise NoPlanError(_budget(error, device_gib), _remedy(error)) from error
    except (ValueError, TypeError, RuntimeError) as error:  # of a foreign model's constructor
        raise NoPlanError(f"{model} cannot be planned for", str(error)) from error
    console = Console(width=WIDTH)
    console.print(_heading(shown))
    console.print(table(shown))
    if shown.checkpointed_layers:
        console.print(f"{shown.checkpointed_layers} layers are checkpointed whole: no chunks there")
    console.print(_verdict(shown, longest, device_gib))


def table(shown: "MemoryPlan") -> Table:
    """GiB by component and phase; the peak is the largest total."""
    drawn = Table("GiB on the device", *(phase.name for phase in shown.phases))
    for column in drawn.columns[1:]:
        column.justify = "right"
    for name in (*ROWS, "margin"):
        values = [getattr(phase, name) for phase in shown.phases]
        drawn.add_row(name.replace("_", " "), *(f"{value / GIB:.2f}" for value in values))
    drawn.add_section()
    drawn.add_row("total", *(f"{phase.total / GIB:.2f}" for phase in shown.phases))
    return drawn


def _heading(shown: "MemoryPlan") -> str:
    return (
        f"{shown.model_type}, {shown.tokens:,} tokens in chunks of {shown.chunk_tokens:,}, "
        f"keep {shown.keep}, store {shown.store}"
    )


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


def _ladder(config: Any, dtype: Any, chunk_tokens: str) -> "list[Footprint]":
    """The chunk lengths to choose from, longest first."""
    from core.streambp.plan import chunk_ladder, footprints

    if chunk_tokens == "auto":
        return chunk_ladder(config, dtype=dtype)
    return footprints(config, dtype=dtype, chunk_lengths=[int(chunk_tokens)])


def _optimizer(kind: str, embeddings: str, precision: str, *, fused: bool) -> Any:
    """The optimizer's spec, from words of a job's; NoPlanError where no job could have them."""
    from core.spec.stepping import check_precision, chosen_step
    from core.spec.trainer import TrainerSpec
    from core.spec.tree import SpecError

    words = {"kind": kind, "embeddings": embeddings}
    if kind not in {"apollo", "apollo_mini"}:
        del words["embeddings"]
    step = "fused" if fused else "two_phase"
    trainer = TrainerSpec.parse({"optimizer": words, "precision": precision, "step": step})
    try:
        check_precision(trainer)
        chosen_step(trainer, tokens_per_step=1, tokens_per_pass=1)
    except SpecError as error:
        problem = error.problems[0]
        raise NoPlanError(f"{problem.path} is refused", problem.message) from error
    return trainer.optimizer


def _budget(error: Any, device_gib: float) -> str:
    if error.field == "budget_bytes":
        return f"{device_gib:g} GiB are too few"
    return f"{error.field} = {error.value!r}"


def _remedy(error: Any) -> str:
    if error.field == "budget_bytes":
        return f"{error.remedy}; try --fused, --embeddings apollo or smaller chunks"
    return str(error.remedy)
