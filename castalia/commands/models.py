"""`castalia models`: base models into the models folder."""

import os
from pathlib import Path
from typing import Annotated

import typer

from castalia.errors import CastaliaError

app = typer.Typer(help="Fetch base models from a hub.", no_args_is_help=True)

DEFAULT_MODELS = Path("castalia-data/models")
ALLOWED = "CASTALIA_ALLOWED_MODELS"


class NotListedError(CastaliaError):
    """A model that whoever runs the service does not allow."""


@app.callback()
def group() -> None:
    """Fetch base models from a hub."""


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="ORGANISATION/NAME@COMMIT, 40 hex digits.")],
    models: Annotated[
        Path, typer.Option(envvar="CASTALIA_MODELS_DIR", help="Where base models lie.")
    ] = DEFAULT_MODELS,
) -> None:
    """Fetch a model's safetensors, configuration and tokenizer, at one commit."""
    from castalia.hub import pull as fetch

    allowed = os.environ.get(ALLOWED)
    if allowed is not None and model not in allowed.replace(",", " ").split():
        raise NotListedError(f"'{model}' is not in {ALLOWED}", "add it there first")
    last = ""

    def told(name: str, _: int) -> None:
        nonlocal last
        if name != last:
            typer.echo(name, err=True)
            last = name

    typer.echo(fetch(model, models, told))
