"""`castalia audit`: what was written through the API, and by whom."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from castalia.commands.projects import known_project
from castalia.database import open_database
from core.store.audit import writes
from core.store.tables import AuditRow

FIELDS = (
    "organization_id",
    "project_id",
    "key_id",
    "request_id",
    "client",
    "method",
    "route",
    "object_id",
    "status",
)
NOBODY = "-"


def audit(
    project: Annotated[str | None, typer.Option(help="Of this project alone.")] = None,
    since: Annotated[datetime | None, typer.Option(help="From then on, in UTC.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the log of writes, oldest first."""
    begin = None if since is None else since.replace(tzinfo=since.tzinfo or UTC)
    with open_database() as database, database.begin() as session:
        project_id = None if project is None else known_project(session, project).id
        for row in writes(session, project_id=project_id, since=begin):
            typer.echo(json.dumps(_document(row)) if as_json else _line(row))


def _document(row: AuditRow) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in FIELDS}
    return {"at": row.at.astimezone(UTC).isoformat(), **fields}


def _line(row: AuditRow) -> str:
    at = row.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    who = f"{row.project_id or NOBODY}  {row.key_id or NOBODY}  {row.client or NOBODY}"
    what = f"{row.status}  {row.method} {row.route}  {row.object_id or NOBODY}"
    return f"{at}  {who}  {what}  {row.request_id}"
