"""`castalia projects`: the tenants of the service, and how much each may use.

Works on the database, so only whoever runs the service can.
"""

from typing import Annotated, get_args

import typer

from castalia.commands.orgs import NameTakenError
from castalia.database import open_database
from castalia.errors import CastaliaError
from castalia.settings import read_settings
from core.store.database import Session
from core.store.errors import Conflict
from core.store.projects import (
    create_project,
    find_organization,
    find_project,
    list_projects,
)
from core.store.quotas import quotas_of, reset_quota, set_quota
from core.store.settings import ServiceSettings
from core.store.tables import ProjectRow
from core.store.usage import Quota, used

app = typer.Typer(help="Make and list projects; set their quotas.", no_args_is_help=True)

QUOTAS: tuple[Quota, ...] = get_args(Quota)
UNLIMITED, DEFAULT = "none", "default"
AMOUNT = f"A number; '{UNLIMITED}': no limit; '{DEFAULT}': that of the service's settings."
LARGEST = 2**63 - 1

Amount = Annotated[str | None, typer.Option(help=AMOUNT, metavar="N")]


class UnknownOrganizationError(CastaliaError):
    """No organisation has this name."""


class UnknownProjectError(CastaliaError):
    """No project has this name."""


class BadAmountError(CastaliaError):
    """A quota that is neither a number nor one of the two words."""

    exit_code = 2


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Its own in the service.")],
    org: Annotated[str, typer.Option(help="Name of its organisation.")] = "default",
) -> None:
    """Make a project; prints its id."""
    try:
        with open_database() as database, database.begin() as session:
            owner = find_organization(session, org)
            if owner is None:
                message = f"there is no organisation '{org}'"
                raise UnknownOrganizationError(
                    message, f"make it with `castalia orgs create {org}`"
                )
            row = create_project(session, name, owner.id)
    except Conflict as error:
        raise NameTakenError(str(error), "use it, or choose another name") from None
    typer.echo(row.id)


@app.command(name="list")
def list_() -> None:
    """List all projects with their organisations."""
    with open_database() as database, database.begin() as session:
        found = list_projects(session)
    for row, organization in found:
        made = f"{row.created_at:%Y-%m-%d %H:%M}"
        typer.echo(f"{row.id}  {row.name:<24}{organization:<24}{made}")


@app.command()
def quota(
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    running: Amount = None,
    queued: Amount = None,
    stored_bytes: Amount = None,
    device_seconds: Amount = None,
) -> None:
    """Set quotas of a project; prints all of them with what is used."""
    asked = dict(zip(QUOTAS, (running, queued, stored_bytes, device_seconds), strict=True))
    changes = {quota: _amount(quota, said) for quota, said in asked.items() if said is not None}
    defaults = read_settings(ServiceSettings).quotas
    with open_database() as database, database.begin() as session:
        project = known_project(session, name)
        for quota, most in changes.items():
            if most == DEFAULT:
                reset_quota(session, project.id, quota)
            else:
                set_quota(session, project.id, quota, None if most == UNLIMITED else int(most))
        limits = quotas_of(session, [project.id], defaults)[project.id]
        uses = {quota: used(session, quota, [project.id])[project.id] for quota in QUOTAS}
    for quota in QUOTAS:
        most_now = limits.most(quota)
        shown = UNLIMITED if most_now is None else str(most_now)
        typer.echo(f"{quota:<16}{uses[quota]:>16} of {shown}")


def known_project(session: Session, name: str) -> ProjectRow:
    """The project of this name. Raises UnknownProjectError."""
    project = find_project(session, name)
    if project is None:
        raise UnknownProjectError(f"there is no project '{name}'", "see `castalia projects list`")
    return project


def _amount(quota: Quota, said: str) -> str:
    if said in (UNLIMITED, DEFAULT) or (said.isascii() and said.isdigit() and int(said) <= LARGEST):
        return said
    remedy = f"give a number from 0 on, '{UNLIMITED}' or '{DEFAULT}'"
    raise BadAmountError(f"{quota} cannot be '{said}'", remedy)
