"""`castalia keys`: who may use the API. Works on the database, so only whoever runs the service can."""

from typing import Annotated, cast

import typer

from castalia.database import open_database
from castalia.errors import CastaliaError
from core.store.errors import Conflict, NotFound
from core.store.keys import (
    SCOPES,
    Scope,
    create_key,
    list_keys,
    new_secret,
    revoke_key,
    rotate_key,
)
from core.store.projects import DEFAULT_PROJECT, project_named

app = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)

HOUR_S = 3600.0
LONGEST_GRACE_H = 24 * 365.0

KeyId = Annotated[str, typer.Argument(help="As `castalia keys list` shows it.")]


class UnknownKeyError(CastaliaError):
    """No key has this id."""


class KeyRevokedError(CastaliaError):
    """A key that opens nothing any more."""


class UnknownScopeError(CastaliaError):
    """A word that is no scope."""

    exit_code = 2


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for.")] = "unnamed",
    project: Annotated[str, typer.Option(help="Made if there is none.")] = DEFAULT_PROJECT,
    scopes: Annotated[
        str,
        typer.Option(
            help=f"What it may do, by commas: {', '.join(SCOPES)}; each implies the former."
        ),
    ] = "submit",
) -> None:
    """Make a key. Its secret is shown once, on stdout."""
    secret, given = new_secret(), _scopes(scopes)
    with open_database() as database, database.begin() as session:
        row = create_key(session, project_named(session, project), name, secret, given)
    _show(secret, f"key {row.id} of project '{project}'")


@app.command(name="list")
def list_() -> None:
    """List all keys."""
    with open_database() as database, database.begin() as session:
        found = list_keys(session)
    for key, project in found:
        state = "revoked" if key.revoked_at else "active"
        made = f"{key.created_at:%Y-%m-%d %H:%M}"
        scopes = ",".join(key.scopes)
        typer.echo(f"{key.id}  {state:<8}{project:<16}{key.name:<16}…{key.hint}  {made}  {scopes}")


@app.command()
def rotate(
    key_id: KeyId,
    grace: Annotated[
        float,
        typer.Option(
            min=0.0, max=LONGEST_GRACE_H, help="Hours for which the former secret still opens it."
        ),
    ] = 24.0,
) -> None:
    """Give a key another secret, shown once, on stdout. With --grace 0 the former is shut out at once."""
    secret = new_secret()
    try:
        with open_database() as database, database.begin() as session:
            rotate_key(session, key_id, secret, grace_s=grace * HOUR_S)
    except NotFound as error:
        raise UnknownKeyError(str(error), "see `castalia keys list`") from None
    except Conflict as error:
        raise KeyRevokedError(str(error), "make another with `castalia keys create`") from None
    _show(secret, f"key {key_id}, whose former secret opens it for {grace:g} h more")


@app.command()
def revoke(key_id: KeyId) -> None:
    """Shut a key out, from the next request on."""
    try:
        with open_database() as database, database.begin() as session:
            revoke_key(session, key_id)
    except NotFound as error:
        raise UnknownKeyError(str(error), "see `castalia keys list`") from None
    typer.echo(f"revoked {key_id}")


def _show(secret: str, whose: str) -> None:
    typer.echo(f"{whose}; the secret is shown only now:", err=True)
    typer.echo(secret)


def _scopes(said: str) -> list[Scope]:
    words = [word.strip() for word in said.split(",")]
    for word in words:
        if word not in SCOPES:
            raise UnknownScopeError(f"'{word}' is no scope", f"use: {', '.join(SCOPES)}")
    return [cast("Scope", word) for word in dict.fromkeys(words)]
