"""`castalia jobs`: ask for a job, follow it, list them; pause, resume or cancel one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from castalia.client import Client, open_client
from castalia.commands.files import push_file
from castalia.errors import CastaliaError
from castalia.follow import follow_job

app = typer.Typer(help="Fine-tuning jobs.", no_args_is_help=True)

FILE_PARAMS = ("training_file", "validation_file")
LISTED = 100


class BadRequestFileError(CastaliaError):
    """A request file that cannot be read."""


@app.command()
def submit(
    request: Annotated[
        Path, typer.Argument(help="The body of POST /v1/fine_tuning/jobs, as JSON.")
    ],
    watch_it: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
) -> None:
    """Create a job; prints its id. Files named by a path, relative to REQUEST, are sent first."""
    with open_client() as client:
        body = _read(request)
        for param in FILE_PARAMS:
            name = body.get(param)
            if isinstance(name, str) and (request.parent / name).is_file():
                body[param] = push_file(client, request.parent / name)["id"]
        job = client.post("/fine_tuning/jobs", body)
        typer.echo(job["id"])
        if watch_it:
            _watch(client, job["id"])


@app.command()
def watch(job_id: Annotated[str, typer.Argument()]) -> None:
    """Follow a job: step, loss, tokens per second, time left."""
    with open_client() as client:
        _watch(client, job_id)


@app.command(name="list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=1000)] = LISTED,
) -> None:
    """List jobs, newest first."""
    with open_client() as client:
        found = client.get("/fine_tuning/jobs", limit=limit)["data"]
    for job in found:
        progress = job["progress"]
        steps = f"{progress['step']}/{progress['total_steps'] or '?'}"
        typer.echo(f"{job['id']}  {job['status']:<17}{steps:<12}{job['model']}")


@app.command()
def cancel(job_id: Annotated[str, typer.Argument()]) -> None:
    """Stop a job: at once if it waits, after its step if it runs."""
    _wish(job_id, "cancel")


@app.command()
def pause(job_id: Annotated[str, typer.Argument()]) -> None:
    """Let a job rest, after its step and a checkpoint if it runs."""
    _wish(job_id, "pause")


@app.command()
def resume(job_id: Annotated[str, typer.Argument()]) -> None:
    """Let a paused job go on from its last checkpoint."""
    _wish(job_id, "resume")


def _wish(job_id: str, wish: str) -> None:
    with open_client() as client:
        job = client.post(f"/fine_tuning/jobs/{job_id}/{wish}")
    typer.echo(f"{job['id']}  {job['phase'] or job['status']}")


def _watch(client: Client, job_id: str) -> None:
    job = follow_job(client, job_id, Console(stderr=True))
    typer.echo(f"{job['fine_tuned_model']}")


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise BadRequestFileError(f"{path}: {error.strerror}", "check the path") from None
    except ValueError as error:
        raise BadRequestFileError(f"{path} is not JSON: {error}", "correct it") from None
    if not isinstance(body, dict):
        raise BadRequestFileError(f"{path} is not a JSON object", "see docs/api.md")
    return body
