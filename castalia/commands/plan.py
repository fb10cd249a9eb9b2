"""`castalia plan`: what a job needs in memory and on disk, and the longest context that fits.

Of a model only the configuration is read; no weights are loaded and no GPU is needed. Options are words of
the job: without a JOB they make one, beside one they are said in place of its own.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from castalia.commands.train import TorchMissingError
from castalia.errors import CastaliaError

GIB = 2**30
WIDTH = 100
ALONE: dict[str, Any] = {
    "hyperparameters": {"batch_size": 1},
    "trainer": {"precision": "bfloat16", "step": "two_phase"},
}
"""What a job is taken to be where there is none: one row a step."""


class NoPlanError(CastaliaError):
    """A job, a model or a budget of which no plan can be made."""


def _number_or_auto(value: str | None) -> str | None:
    if value is not None and value != "auto" and not (value.isdecimal() and int(value)):
        raise typer.BadParameter("give a whole number of tokens, at least 1, or auto")
    return value


def _number(value: str) -> str | int:
    return int(value) if value.isdecimal() else value


def plan(  # noqa: PLR0913, PLR0917  every option is a line of the question
    job: Annotated[
        Path | None, typer.Argument(help="A JobSpec as JSON, as `castalia train` takes it.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A folder with config.json, or that file.")
    ] = None,
    device_gib: Annotated[
        float | None, typer.Option(min=0.0, help="Memory of the device, in GiB, to fit into.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens a row; default: the job's, else the longest that fits."),
    ] = None,
    optimizer: Annotated[
        Literal["apollo_mini", "apollo", "scale", "adamw", "sgd"] | None,
        typer.Option(help="As in a spec."),
    ] = None,
    precision: Annotated[
        Literal["bfloat16", "float32", "int8"] | None,
        typer.Option(help="In which weights are held; int8 ones compute in bfloat16."),
    ] = None,
    embeddings: Annotated[
        Literal["adamw", "apollo"] | None,
        typer.Option(help="As in a spec: of embeddings and head."),
    ] = None,
    keep: Annotated[
        Literal["hidden", "hidden+attention", "hidden+kv"] | None,
        typer.Option(help="What a layer keeps."),
    ] = None,
    store: Annotated[
        Literal["device", "cpu", "disk"] | None, typer.Option(help="Where it keeps it.")
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Step each layer inside the backward pass.")
    ] = False,
    chunk_tokens: Annotated[
        str | None,
        typer.Option(callback=_number_or_auto, help="Tokens a layer sees at once, or auto."),
    ] = None,
    head_chunk_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens with logits at once.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JobPlan as JSON, in bytes.")] = False,
) -> None:
    """Show what JOB, or training MODEL, needs, by component, and the longest context that fits."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise TorchMissingError("torch is not installed here", "pip install 'castalia[train]'")
    from castalia.plan_tables import plan_tables
    from castalia.planned import Asked, planned

    if job is None and (model is None or device_gib is None):
        raise typer.BadParameter("give a JOB, or --model and --device-gib")
    trainer = {
        "context_length": context,
        "precision": precision,
        "step": "fused" if fused else None,
    }
    stream = {
        "keep": keep,
        "store": store,
        "chunk_tokens": None if chunk_tokens is None else _number(chunk_tokens),
        "head_chunk_tokens": head_chunk_tokens,
    }
    stepped = {"kind": optimizer, "embeddings": embeddings}
    asked = Asked(_document(job, trainer, stream, stepped), job, model, device_gib)
    shown = planned(asked)
    if as_json:
        typer.echo(shown.model_dump_json(indent=2))
        return
    console = Console(width=WIDTH)
    for part in plan_tables(shown):
        console.print(part)


def _document(
    job: Path | None, trainer: dict[str, Any], stream: dict[str, Any], stepped: dict[str, Any]
) -> dict[str, Any]:
    """The job's words, with those that were given in place of its own."""
    document: dict[str, Any] = ALONE if job is None else _read(job)
    words = dict(document.get("trainer", {}))
    words |= _given(trainer)
    for name, given in (("stream", _given(stream)), ("optimizer", _given(stepped))):
        if given:
            old = words.get(name, {})
            # Another kind of optimizer has other words.
            words[name] = given if given.keys() >= {"kind"} else old | given
    if "optimizer" in words:
        words["optimizer"].setdefault("kind", "apollo_mini")
    return document | {"trainer": words}


def _given(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def _read(job: Path) -> dict[str, Any]:
    try:
        document = json.loads(job.read_bytes())
    except (OSError, ValueError) as error:
        raise NoPlanError(f"{job} cannot be read", str(error)) from error
    if not isinstance(document, dict):
        raise NoPlanError(f"{job} is no job", "give an object as `castalia train` takes it")
    return document
