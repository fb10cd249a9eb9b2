"""`castalia orgs`: who owns projects. Works on the database, so only whoever runs the service can."""

from typing import Annotated

import typer

from castalia.database import open_database
from castalia.errors import CastaliaError
from core.store.errors import Conflict
from core.store.projects import create_organization, list_organizations

app = typer.Typer(help="Make and list organisations.", no_args_is_help=True)


class NameTakenError(CastaliaError):
    """An organisation or a project of this name is there."""


@app.command()
def create(name: Annotated[str, typer.Argument(help="Its own in the service.")]) -> None:
    """Make an organisation; prints its id."""
    try:
        with open_database() as database, database.begin() as session:
            row = create_organization(session, name)
    except Conflict as error:
        raise NameTakenError(str(error), "use it, or choose another name") from None
    typer.echo(row.id)


@app.command(name="list")
def list_() -> None:
    """List all organisations."""
    with open_database() as database, database.begin() as session:
        found = list_organizations(session)
    for row in found:
        typer.echo(f"{row.id}  {row.name:<24}{row.created_at:%Y-%m-%d %H:%M}")
