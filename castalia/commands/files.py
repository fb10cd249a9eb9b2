"""`castalia files`: send training files, fetch results."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from castalia.client import Client, open_client
from castalia.download import download
from castalia.errors import CastaliaError

app = typer.Typer(help="Send and fetch files.", no_args_is_help=True)

RESUME_KINDS = ("state",)
JOB_PREFIX = "ftjob-"


class NoSuchFileError(CastaliaError):
    """A path that leads to no file."""


class NoCheckpointError(CastaliaError):
    """A job that has nothing to fetch yet."""


@app.command()
def push(
    path: Annotated[Path, typer.Argument(help="A training file: JSONL.")],
    purpose: Annotated[str, typer.Option(help="What the file is for.")] = "fine-tune",
) -> None:
    """Send a file; prints its id."""
    with open_client() as client:
        typer.echo(push_file(client, path, purpose)["id"])


@app.command()
def pull(
    source: Annotated[str, typer.Argument(help="A file's id, or a job's for its last weights.")],
    out: Annotated[Path, typer.Option(help="Folder to put it into.")] = Path(),
    everything: Annotated[
        bool, typer.Option("--all", help="Of a job also the state that a resumed run needs.")
    ] = False,
) -> None:
    """Fetch a file, or all files of a job's last checkpoint. A cut download goes on."""
    with open_client() as client:
        if source.startswith(JOB_PREFIX):
            files = checkpoint_files(client, source, everything=everything)
        else:
            files = [client.get(f"/files/{source}")]
        pull_files(client, files, out)
    typer.echo(str(out))


def push_file(client: Client, path: Path, purpose: str = "fine-tune") -> Any:
    """The File object of an uploaded file. Raises NoSuchFileError."""
    if not path.is_file():
        raise NoSuchFileError(f"there is no file {path}", "check the path")
    return client.upload(path, purpose)


def checkpoint_files(client: Client, job_id: str, *, everything: bool) -> list[Any]:
    """The files of a job's last checkpoint. Raises NoCheckpointError."""
    page = client.get(f"/fine_tuning/jobs/{job_id}/checkpoints", limit=1)
    if not page["data"]:
        raise NoCheckpointError(f"job {job_id} has no checkpoint yet", "see `castalia jobs watch`")
    files = page["data"][0]["files"]
    return [file for file in files if everything or file["kind"] not in RESUME_KINDS]


def pull_files(client: Client, files: list[Any], out: Path) -> None:
    """Fetch files below ``out``, with a bar on stderr."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("download", total=sum(file["bytes"] for file in files))
        for file in files:
            name = file.get("path") or file["filename"]
            target = _below(out, name)
            download(client, file["id"], target, file["sha256"], lambda n: bar.advance(task, n))


def _below(out: Path, name: str) -> Path:
    """``out/name``, and never a path outside of ``out``, whatever the service says."""
    target = (out / name).resolve()
    if not target.is_relative_to(out.resolve()):
        raise NoSuchFileError(
            f"the file's name '{name}' leads out of {out}", "ask for its id alone"
        )
    return target
