"""The command `castalia`. Each group of commands is a module of `castalia.commands`.

Exit codes: 0 done; 1 refused, with one line that says why and what to do; 2 wrong usage; 3 the service
cannot be reached; 4 the job failed; 5 the job was cancelled; 130 Ctrl-C. `castalia train` ends with the
codes of `python -m core.train`.
"""

import sys

import typer

from castalia.commands import (
    audit,
    data,
    files,
    jobs,
    keys,
    models,
    orgs,
    plan,
    processes,
    projects,
    train,
    up,
    webhooks,
)
from castalia.errors import CastaliaError

app = typer.Typer(
    name="castalia",
    help="Training as a service for long contexts.",
    epilog="Exit codes: 0 done, 1 refused, 2 usage, 3 service unreachable, 4 job failed, 5 cancelled.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(up.up)
app.command()(processes.api)
app.command()(processes.worker)
app.command()(processes.janitor)
app.command()(processes.migrate)
app.command()(train.train)
app.command()(plan.plan)
app.command()(audit.audit)
app.add_typer(orgs.app, name="orgs")
app.add_typer(projects.app, name="projects")
app.add_typer(keys.app, name="keys")
app.add_typer(jobs.app, name="jobs")
app.add_typer(files.app, name="files")
app.add_typer(data.app, name="data")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(models.app, name="models")


def main() -> None:
    """Run the command line; a foreseen failure is one line on stderr."""
    try:
        app()
    except CastaliaError as error:
        sys.stderr.write(f"castalia: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
