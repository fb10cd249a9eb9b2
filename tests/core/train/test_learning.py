"""A run learns, repeats bit for bit, and says what it did at each step."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.train.inputs import model_facts, read_rows_of


def test_the_loss_of_rows_seen_often_falls(make_spec, train):
    spec = make_spec(
        hyperparameters={"n_epochs": 15, "batch_size": 7},
        trainer={"optimizer": {"kind": "adamw"}, "learning_rate": 0.01},
    )
    losses = [metrics["train_loss"] for metrics in train(spec).steps.values()]
    assert abs(losses[0] - math.log(258)) < 0.5
    assert losses[-1] < losses[0] / 2


def test_a_seed_repeats_a_run_bit_for_bit_and_another_seed_does_not(make_spec, train, bit_equal):
    one, same, other = (
        train(make_spec(seed=seed), name) for seed, name in ((5, "a"), (5, "b"), (6, "c"))
    )
    assert bit_equal(one.weights, same.weights)
    assert bit_equal(one.state, same.state)
    assert one.steps == same.steps
    assert not bit_equal(one.weights, other.weights)
    assert one.steps[1]["train_loss"] != other.steps[1]["train_loss"]


def test_each_step_tells_the_learning_rate_with_which_it_was_made(make_spec, train):
    schedule = {"kind": "linear", "warmup_ratio": 0.25, "floor_ratio": 0.5}
    run = train(make_spec(trainer={"schedule": schedule, "learning_rate": 0.008}))
    rates = [metrics["learning_rate"] for metrics in run.steps.values()]
    falling = [0.008 - 0.004 * k / 6 for k in range(6)]
    assert rates == pytest.approx([0.004, 0.008, *falling])
    assert run.state["optimizer"]["param_groups"][0]["lr"] == rates[-1]


def test_the_first_event_tells_the_plan_and_the_last_the_sum(make_spec, train):
    run = train(make_spec())
    started, finished = run.events[0], run.events[-1]
    assert (started.kind, started.step, started.total_steps, started.rows) == ("started", 0, 8, 7)
    assert started.layers == {"streamed": 2, "checkpointed": 0}
    assert (finished.kind, finished.step) == ("finished", 8)
    assert finished.trained_tokens == run.of("step")[-1].trained_tokens > 0
    assert run.steps[8]["epoch"] == 2.0
    assert finished.metrics["train_loss"] == run.steps[8]["train_loss"]


def test_max_steps_ends_a_run_early(make_spec, train):
    run = train(make_spec(trainer={"max_steps": 3}))
    assert list(run.steps) == [1, 2, 3]
    assert run.checkpoint.name == "step-00000003"


def test_the_validation_loss_is_that_of_the_stock_model(make_spec, train, tmp_path, chat_lines):
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_bytes(chat_lines(10)[len(chat_lines(7)) :])
    spec = make_spec(validation_file=str(held_out))
    run = train(spec)
    evaluated = {event.step: event.metrics["full_valid_loss"] for event in run.of("evaluated")}
    assert list(evaluated) == [0, 4, 8]
    assert evaluated[0] == pytest.approx(_stock_loss(spec, spec.model, tmp_path), abs=1e-5)
    assert evaluated[8] == pytest.approx(_stock_loss(spec, run.checkpoint, tmp_path), abs=1e-5)
    assert evaluated[8] != evaluated[0]


def test_rows_that_stand_in_both_files_are_told_by_line(make_spec, train, tmp_path, training_path):
    held_out = tmp_path / "held_out.jsonl"
    lines = training_path.read_bytes().splitlines(keepends=True)
    held_out.write_bytes(lines[4] + lines[1])
    run = train(make_spec(validation_file=str(held_out)))
    (note,) = (event for event in run.of("noted") if event.code == "rows.in_both_files")
    assert (note.level, note.data) == ("warn", {"rows": 2})
    assert "lines 2 = 2, 5 = 1" in note.message


def test_a_run_tells_how_long_the_rows_of_its_files_are(make_spec, train, tmp_path, training_path):
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_bytes(training_path.read_bytes().splitlines(keepends=True)[2])
    (started,) = train(make_spec(validation_file=str(held_out))).of("started")
    training, validation = started.files
    assert (training.param, training.rows, training.cached) == ("training_file", 7, False)
    assert (validation.param, validation.rows) == ("validation_file", 1)
    assert sum(bucket.rows for bucket in training.lengths) == 7
    (bucket,) = validation.lengths
    assert bucket.shortest <= validation.tokens == validation.longest <= bucket.longest
    assert 0 < validation.trained_tokens < validation.tokens
    assert f"rows by tokens: {bucket.shortest}-{bucket.longest}: 1" in started.words


def test_lengths_are_those_of_rows_before_they_are_cut(make_spec, train):
    (whole, cut) = (
        train(make_spec(trainer={"context_length": context, "on_overlength": policy}), policy)
        .of("started")[0]
        .files[0]
        for context, policy in ((64, "error"), (36, "truncate_right"))
    )
    assert whole.lengths == cut.lengths
    assert cut.longest == 36 < whole.longest


@torch.no_grad()
def _stock_loss(spec, folder, beside):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    spec = spec.resolved(model_facts(spec.model, "toy"))
    rows = read_rows_of(spec, "validation_file", beside, tokenizer).read.rows
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    total = 0.0
    for row in rows:
        ids = torch.tensor([row.input_ids])
        labels = torch.where(torch.tensor([row.trained]), ids, -100)
        total += float(model(ids, labels=labels, num_items_in_batch=1).loss)
    return total / sum(row.targets for row in rows)
