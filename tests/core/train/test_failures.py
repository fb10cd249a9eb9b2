"""Every failure is one event, one line and one exit code, and it names what to mend."""

import errno
import json
import os
import shutil
import signal
import time
from threading import Thread

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from core.spec.errors import ExitCode
from core.spec.events import run_event
from core.streambp.errors import StoreError
from core.train.__main__ import as_failure, main

# Each step multiplies every weight by 1 - 10 * 1, so float32 ends within some twenty.
INFINITE = {
    "optimizer": {"kind": "sgd", "weight_decay": 1.0},
    "learning_rate": 10.0,
    "schedule": {"kind": "constant"},
}


@pytest.fixture
def command(tmp_path):
    """Runs the command on a spec's document; its code and the error of the last event."""

    def run(document):
        path, out = tmp_path / "spec.json", tmp_path / "out"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        code = main([str(path), "--out", str(out)])
        lines = (out / "events.jsonl").read_bytes().splitlines()
        return code, getattr(run_event.validate_json(lines[-1]), "error", None)

    return run


@pytest.fixture
def document(make_spec):
    return lambda **changes: make_spec(**changes).model_dump(mode="json")


def test_a_run_that_is_done_ends_with_zero(command, document):
    code, error = command(document(trainer={"max_steps": 1}))
    assert (code, error) == (ExitCode.done, None)


def test_sigterm_ends_a_run_after_its_step_with_a_checkpoint(command, document, tmp_path):
    events = tmp_path / "out" / "events.jsonl"

    def ask():
        while not (events.exists() and b'"train_loss"' in events.read_bytes()):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    asking = Thread(target=ask)
    asking.start()
    code, _ = command(document(hyperparameters={"n_epochs": 50}))
    asking.join()
    assert code == ExitCode.interrupted
    stopped = run_event.validate_json(events.read_bytes().splitlines()[-1])
    assert stopped.kind == "stopped"
    assert (tmp_path / "out" / "checkpoints" / f"step-{stopped.step:08d}").is_dir()


@pytest.mark.parametrize("arguments", [[], ["spec.json"], ["spec.json", "--out", "o", "--more"]])
def test_wrong_usage_ends_with_two(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == ExitCode.usage


def test_a_wrong_spec_is_refused_with_the_path_of_the_fault(command, document, capsys):
    wrong = document()
    wrong["trainer"]["optimizer"]["rank"] = 4
    code, error = command(wrong)
    assert code == ExitCode.spec
    assert (error.code, error.param) == ("invalid_spec", "trainer.optimizer.rank")
    assert capsys.readouterr().err.splitlines()[-1].startswith("castalia: invalid_spec: ")


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"trainer": {"context_length": 513}}, "context_length_exceeded", "trainer.context_length"),
        ({"model": "no/such"}, "model_not_found", "model"),
    ],
)
def test_what_the_model_cannot_do_is_refused(command, document, monkeypatch, changes, code, param):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    exit_code, error = command(document(**changes))
    assert (exit_code, error.code, error.param) == (ExitCode.spec, code, param)


def test_a_spec_that_is_no_json_is_refused(command):
    code, error = command("{")
    assert (code, error.code, error.param) == (ExitCode.spec, "invalid_spec", "spec")


def test_a_spec_that_is_not_there_is_refused(tmp_path):
    assert main([str(tmp_path / "none.json"), "--out", str(tmp_path)]) == ExitCode.spec


def test_a_wrong_row_is_named_by_its_line(command, document, training_path):
    lines = training_path.read_bytes().splitlines(keepends=True)
    training_path.write_bytes(b"".join([*lines[:4], b'{"messages": 1}\n', *lines[4:]]))
    code, error = command(document())
    assert (code, error.code, error.param) == (
        ExitCode.data,
        "invalid_training_file",
        "training_file",
    )
    assert "line 5" in error.message


def test_a_file_that_is_not_there_is_named(command, document, tmp_path):
    code, error = command(document(validation_file=str(tmp_path / "none.jsonl")))
    assert (code, error.code, error.param) == (ExitCode.data, "file_not_found", "validation_file")
    assert "none.jsonl" in error.message


def test_a_run_that_diverges_ends_before_it_spoils_its_weights(command, document, tmp_path):
    trainer = {**INFINITE, "max_skipped_steps": 0, "checkpoint": {"every": 1, "keep_last": 1}}
    code, error = command(document(trainer=trainer, hyperparameters={"n_epochs": 20}))
    assert (code, error.code) == (ExitCode.diverged, "loss_not_finite")
    assert error.param == "trainer.learning_rate"
    assert f"at step {error.last_step + 1} (lines " in error.message
    (kept,) = (tmp_path / "out" / "checkpoints").iterdir()
    assert kept.name == f"step-{error.last_step:08d}"


def test_a_model_that_is_broken_already_is_found_by_the_first_evaluation(
    command, document, training_path, toy_model, tmp_path
):
    broken = shutil.copytree(toy_model, tmp_path / "broken")
    weights = load_file(toy_model / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    code, error = command(document(model=str(broken), validation_file=str(training_path)))
    assert (code, error.code, error.last_step) == (ExitCode.diverged, "loss_not_finite", 0)
    assert "full_valid_loss not finite on the validation file after step 0" in error.message


@pytest.mark.parametrize(
    ("error", "code", "exit_code", "fault"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory", 12, "capacity"),
        (RuntimeError("DefaultCPUAllocator: no"), "out_of_memory", 12, "capacity"),
        (MemoryError(), "out_of_memory", 12, "capacity"),
        (OSError(errno.ENOSPC, "No space left on device"), "insufficient_disk", 16, "platform"),
        (
            StoreError("folder", "/f", "No space left on device"),
            "insufficient_disk",
            16,
            "platform",
        ),
        (StoreError("folder", "/f", "No such file"), "store_not_writable", 16, "platform"),
        (
            SafetensorError("I/O error: No space left on device"),
            "insufficient_disk",
            16,
            "platform",
        ),
        (KeyError("x"), "internal_error", 1, "platform"),
    ],
)
def test_what_nobody_foresaw_is_told_apart(error, code, exit_code, fault):
    failure = as_failure(error)
    assert (failure.error.code, failure.exit_code, failure.error.fault) == (code, exit_code, fault)
