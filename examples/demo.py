"""`make demo`: the main job on real parts, from nothing to a tuned model that speaks.

It starts `castalia up` in a folder of its own (embedded Postgres and Valkey, API, workers), drives it with
the stock `openai` client, and fine-tunes SmolLM2-135M, every parameter of it, on a few hundred definitions
by Ambrose Bierce. At the end it loads the *downloaded* files with plain transformers and asks both models.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai_client import answer, download, follow, latest_checkpoint, upload
from rich.console import Console
from rich.table import Table
from transformers.utils import logging as transformers_logging

from castalia.demo_model import prepare_smollm2
from castalia.follow import steps_bar
from castalia.ports import free_port

ROOT = Path(__file__).parent
FOLDER = Path("castalia-data/demo")
MODEL = "SmolLM2-135M-Instruct"
QUESTION = "Define: patience"
HYPERPARAMETERS = {"n_epochs": 1, "batch_size": 8}
TRAINER: dict[str, Any] = {
    "context_length": 1024,
    "learning_rate": 1e-4,
    "optimizer": {"kind": "apollo_mini"},
    "checkpoint": {"keep_last": 1},
}
STOP_GRACE_S = 100
MIB = 2**20


def main() -> None:
    """From nothing to a table and two answers."""
    console = Console()
    console.rule("Castalia: the main job on real parts")
    console.print(f"preparing {MODEL} …")
    base = prepare_smollm2(FOLDER / "models" / MODEL)
    with service(console) as client:
        job, events = train(client, console)
        if job.status != "succeeded":
            raise SystemExit(f"the job {job.status}: {job.error and job.error.message}")
        tuned = download(client, latest_checkpoint(client, job.id), FOLDER / "tuned" / job.id)
    console.print(result_table(job, events, tuned))
    console.print(f"\nQ: {QUESTION}")
    console.print(f"before: {answer(base, QUESTION)}", style="dim")
    console.print(f"after:  {answer(tuned, QUESTION)}", style="bold")


@contextmanager
def service(console: Console) -> Iterator[OpenAI]:
    """`castalia up` in FOLDER, and a stock client for it."""
    port = free_port()
    command = [sys.executable, "-m", "castalia", "up", "--data", str(FOLDER), f"--port={port}"]
    process = subprocess.Popen(command, start_new_session=True)  # noqa: S603
    key_file = FOLDER / "secrets" / "api_key"
    try:
        wait_until_ready(process, port)
        client = OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key=key_file.read_text().strip()
        )
        yield client
        client.close()
    finally:
        console.print("stopping the service …")
        process.send_signal(signal.SIGINT)
        process.wait(STOP_GRACE_S)


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Until the API answers; the service's own lines say what it does meanwhile."""
    import httpx  # noqa: PLC0415 - only here

    while True:
        if process.poll() is not None:
            raise SystemExit("the service did not start; its lines above say why")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)


def train(client: OpenAI, console: Console) -> tuple[FineTuningJob, list[dict[str, Any]]]:
    """Upload, create and follow the job with a bar; the ended job and its events' data."""
    job = client.fine_tuning.jobs.create(
        model=MODEL,
        training_file=upload(client, ROOT / "data" / "devils_dictionary.train.jsonl"),
        validation_file=upload(client, ROOT / "data" / "devils_dictionary.valid.jsonl"),
        seed=7,
        suffix="bierce",
        method={"type": "supervised", "supervised": {"hyperparameters": HYPERPARAMETERS}},  # type: ignore[typeddict-item]
        extra_body={"trainer": TRAINER},
    )
    seen: list[dict[str, Any]] = []
    with steps_bar(console) as bar:
        task = bar.add_task("waiting", total=None, figures="")

        def tell(now: FineTuningJob, news: list[FineTuningJobEvent]) -> None:
            for event in news:
                data = dict(event.data or {})  # type: ignore[call-overload]
                seen.append(data)
                is_step = data["code"] == "step.completed"
                if is_step:
                    figures = (
                        f"loss {data['train_loss']:.3f}  {data['tokens_per_second']:.0f} tok/s"
                    )
                    bar.update(
                        task, completed=data["step"], total=data["total_steps"], figures=figures
                    )
                if not (is_step and console.is_terminal):  # where the bar cannot be seen
                    console.print(f"  {event.message}", highlight=False)
            bar.update(task, description=getattr(now, "phase", None) or now.status)

        return follow(client, job.id, tell), seen


def result_table(job: FineTuningJob, events: list[dict[str, Any]], tuned: Path) -> Table:
    """Loss before and after on held-out rows, tokens, memory, time, and where the weights are."""
    losses = [event["full_valid_loss"] for event in events if event["code"] == "eval.completed"]
    steps = [event for event in events if event["code"] == "step.completed"]
    seconds = sum(event["step_seconds"] for event in steps)
    table = Table("", title=str(job.fine_tuned_model), show_header=False)
    table.add_column(overflow="fold")
    table.add_row("loss on held-out rows, before", f"{losses[0]:.3f}")
    table.add_row("loss on held-out rows, after", f"{losses[-1]:.3f}")
    table.add_row(
        "tokens seen / trained on", f"{sum(e['tokens'] for e in steps):.0f} / {job.trained_tokens}"
    )
    table.add_row("peak memory of the trainer", f"{steps[-1]['peak_memory_bytes'] / MIB:.0f} MiB")
    table.add_row("time of the steps", f"{seconds:.0f} s for {len(steps)} steps")
    table.add_row("the weights", str(tuned))
    return table


if __name__ == "__main__":
    transformers_logging.disable_progress_bar()
    main()
