"""The canary makes a step on the longest rows, tells what it took, and leaves no trace in the weights."""

import json

import pytest
import torch

from core.spec.errors import ExitCode, RunFailure
from core.train import canary
from core.train.canary import longest_rows
from core.train.inputs import model_facts


def passed(run):
    return [event for event in run.of("noted") if event.code == "canary.passed"]


@pytest.mark.parametrize(
    ("kind", "trainer"),
    [
        ("sft", {}),
        ("sft", {"precision": "int8", "tokens_per_pass": 128}),
        ("sft", {"adapter": {"kind": "lora", "rank": 2, "dropout": 0.2}}),
        ("dpo", {}),
        ("grpo", {}),
    ],
    ids=["sft", "int8", "lora", "dpo", "grpo"],
)
def test_the_weights_are_those_of_a_run_without_one(
    kind, trainer, objective_of, row_of, make_spec, train, training_path, bit_equal
):
    training_path.write_text("".join(json.dumps(row_of(kind, n, n)) + "\n" for n in range(5)))
    words = {"objective": objective_of(kind), **trainer}
    runs = [
        train(
            make_spec(validation_file=str(training_path), trainer={**words, "canary": flies}),
            f"{flies}",
        )
        for flies in (True, False)
    ]
    assert [len(passed(run)) for run in runs] == [1, 0]
    assert runs[0].steps == runs[1].steps
    assert bit_equal(runs[0].state, runs[1].state)
    name = "adapter_model.safetensors" if "adapter" in trainer else "model.safetensors"
    one, other = ((run.checkpoint / name).read_bytes() for run in runs)
    assert one == other


def test_it_tells_what_was_planned_and_what_was_measured(make_spec, train):
    run = train(make_spec(trainer={"canary": True, "max_steps": 1}))
    (note,) = passed(run)
    assert run.events[0] == note  # before the first step, and before a checkpoint is seen
    data = note.data
    assert data["rows"] == 2
    assert data["tokens"] == max(  # of the toy's rows, a token a byte, with the template's own
        metrics["tokens"] for metrics in train(
            make_spec(hyperparameters={"batch_size": 1, "n_epochs": 1}), "single"
        ).steps.values()
    )  # fmt: skip
    weights = sum(x.nbytes for x in run.weights.values())
    assert 3 * weights < data["measured_bytes"]  # with gradients and state
    assert data["measured_bytes"] < 1.5 * data["predicted_bytes"]
    assert sorted(path.name for path in run.directory.iterdir()) == [
        "beat.json", "checkpoints", "events.jsonl"
    ]  # fmt: skip


def test_a_run_that_goes_on_has_none(make_spec, train):
    spec = make_spec(trainer={"canary": True})
    train(spec, stop_at=6)
    assert len(passed(train(spec))) == 1


def test_what_does_not_fit_is_told_before_the_first_step(make_spec, train, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")

    monkeypatch.setattr(canary, "_fly", full)  # no memory is really filled
    with pytest.raises(RunFailure) as failure:
        train(make_spec(trainer={"canary": True}))
    error = failure.value.error
    assert (error.code, failure.value.exit_code) == ("out_of_memory", ExitCode.out_of_memory)
    assert (error.param, error.fault) == ("trainer.context_length", "capacity")
    assert "in the canary, on rows of 38 tokens for which the plan foresaw" in error.message
    assert "set trainer.context_length to at most 37;" in error.hint
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("batch_size", "tokens_per_pass", "count"), [(1, 64, 1), (8, 64, 2), (8, 130, 4), (3, 500, 3)]
)
def test_it_takes_the_longest_rows_of_two_passes_or_of_a_step(
    batch_size, tokens_per_pass, count, make_spec, toy_model
):
    rows = [[0] * length for length in (3, 60, 5, 61, 7, 62, 9, 63)]
    spec = make_spec(
        hyperparameters={"batch_size": batch_size}, trainer={"tokens_per_pass": tokens_per_pass}
    ).resolved(model_facts(str(toy_model), "toy"))
    chosen = longest_rows(rows, spec)
    assert [len(row) for row in chosen] == sorted(map(len, rows), reverse=True)[:count]
