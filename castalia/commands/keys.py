"""`castalia keys`: who may use the API. Works on the database, so only whoever runs the service can."""

from typing import Annotated

import typer

from castalia.database import open_database
from castalia.errors import CastaliaError
from core.store.errors import NotFound
from core.store.keys import (
    DEFAULT_PROJECT,
    create_key,
    list_keys,
    new_secret,
    project_named,
    revoke_key,
)

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


class UnknownKeyError(CastaliaError):
    """No key has this id."""


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for.")] = "unnamed",
    project: Annotated[str, typer.Option(help="Made if there is none.")] = DEFAULT_PROJECT,
) -> None:
    """Make a key. Its secret is shown once, on stdout."""
    secret = new_secret()
    with open_database() as database, database.begin() as session:
        row = create_key(session, project_named(session, project), name, secret)
    typer.echo(f"key {row.id} of project '{project}'; its secret is shown only now:", err=True)
    typer.echo(secret)


@app.command(name="list")
def list_() -> None:
    """List all keys."""
    with open_database() as database, database.begin() as session:
        found = list_keys(session)
    for key, project in found:
        state = "revoked" if key.revoked_at else "active"
        made = f"{key.created_at:%Y-%m-%d %H:%M}"
        typer.echo(f"{key.id}  {state:<8}{project:<16}{key.name:<16}…{key.hint}  {made}")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `castalia keys list` shows it.")],
) -> None:
    """Shut a key out, from the next request on."""
    try:
        with open_database() as database, database.begin() as session:
            revoke_key(session, key_id)
    except NotFound as error:
        raise UnknownKeyError(str(error), "see `castalia keys list`") from None
    typer.echo(f"revoked {key_id}")
