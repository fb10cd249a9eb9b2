"""The whole life of a job with the stock `openai` client: upload, create, follow, download.

    export CASTALIA_URL=http://127.0.0.1:8000 CASTALIA_API_KEY=…
    python examples/openai_client.py TRAIN.jsonl VALID.jsonl --model NAME --out DIR

Nothing here is Castalia's: another base URL is all that the client needs. What OpenAI has no word for
goes into `trainer`, by `extra_body`.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai.types.fine_tuning.jobs import FineTuningJobCheckpoint

TERMINAL = ("succeeded", "failed", "cancelled")
POLL_S = 1.0


def open_client() -> OpenAI:
    """A stock client; CASTALIA_URL and CASTALIA_API_KEY say where and who."""
    url = os.environ.get("CASTALIA_URL", "http://127.0.0.1:8000")
    return OpenAI(base_url=f"{url}/v1", api_key=os.environ["CASTALIA_API_KEY"])


def upload(client: OpenAI, path: Path) -> str:
    """Send a file and wait until the service has checked it; its id."""
    sent = client.files.create(file=path, purpose="fine-tune")
    checked = client.files.wait_for_processing(sent.id, poll_interval=POLL_S)
    if checked.status == "error":
        raise SystemExit(f"{path} is refused: {checked.status_details}")
    return sent.id


def follow(
    client: OpenAI, job_id: str, tell: Callable[[FineTuningJob, list[FineTuningJobEvent]], None]
) -> FineTuningJob:
    """Hand each new event to `tell`, oldest first, until the job ends; the ended job."""
    seen: set[str] = set()
    while True:
        job = client.fine_tuning.jobs.retrieve(job_id)
        page = client.fine_tuning.jobs.list_events(job_id, limit=100)
        news = [event for event in page.data if event.id not in seen]
        seen.update(event.id for event in news)
        tell(job, news[::-1])
        if job.status in TERMINAL:
            return job
        time.sleep(POLL_S)


def latest_checkpoint(client: OpenAI, job_id: str) -> FineTuningJobCheckpoint:
    """The newest checkpoint of a job."""
    return client.fine_tuning.jobs.checkpoints.list(job_id, limit=1).data[0]


def download(client: OpenAI, checkpoint: FineTuningJobCheckpoint, out: Path) -> Path:
    """Fetch the model's files; `out` is then a folder that transformers loads."""
    out.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, Any]] = checkpoint.files  # type: ignore[attr-defined]  # ours
    for file in files:
        if file["kind"] == "state":  # only a resumed run needs it
            continue
        with client.files.with_streaming_response.content(file["id"]) as answer:
            answer.stream_to_file(out / file["path"])
    return out


def answer(folder: Path, question: str, *, max_new_tokens: int = 40) -> str:
    """What the model in a folder says, greedily, with plain transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 - slow to load

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    messages = [{"role": "user", "content": question}]
    inputs = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
    return str(tokenizer.decode(made[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def main() -> None:
    """Run one job from files to an answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, default=Path("tuned-model"))
    parser.add_argument("--question", default="Define: patience")
    parser.add_argument("--max-steps", type=int)
    options = parser.parse_args()

    client = open_client()
    job = client.fine_tuning.jobs.create(
        model=options.model,
        training_file=upload(client, options.train),
        validation_file=upload(client, options.valid),
        extra_body={"trainer": {"max_steps": options.max_steps}},
    )
    print(f"created {job.id}")

    def tell(job: FineTuningJob, news: list[FineTuningJobEvent]) -> None:
        for event in news:
            print(f"{job.status:<17}{event.message}")

    job = follow(client, job.id, tell)
    if job.status != "succeeded":
        raise SystemExit(f"{job.status}: {job.error and job.error.message}")
    for checkpoint in client.fine_tuning.jobs.checkpoints.list(job.id):
        print(f"checkpoint {checkpoint.id} at step {checkpoint.step_number}")
    folder = download(client, latest_checkpoint(client, job.id), options.out)
    print(f"{job.fine_tuned_model} lies in {folder}")
    print(f"Q: {options.question}\nA: {answer(folder, options.question)}")


if __name__ == "__main__":
    main()
