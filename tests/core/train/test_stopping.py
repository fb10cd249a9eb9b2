"""Which measurement counts as the best, how long a run goes on without a better one, and what is kept."""

import pytest

from core.spec.errors import RunFailure
from core.spec.run import checkpoint_name
from core.train.best import Best

WRONG_WAY = {"learning_rate": 9.0, "optimizer": {"kind": "sgd"}}  # sure to make things worse


@pytest.fixture
def held_out(tmp_path, chat_lines):
    path = tmp_path / "held_out.jsonl"
    path.write_bytes(chat_lines(10)[len(chat_lines(7)) :])
    return str(path)


@pytest.fixture
def watched(make_spec, train, held_out):
    """Run with a measurement after every step; ``trainer`` are further words."""

    def run(name="run", **trainer):
        trainer = {"evaluation": {"every": 1}, "checkpoint": {"keep_last": 1}, **trainer}
        return train(make_spec(validation_file=held_out, trainer=trainer), name)

    return run


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("full_valid_loss", [3.0, 2.0, 2.5], 2),
        ("valid_kl", [3.0, 4.0, 1.0], 3),
        ("valid_reward", [0.1, 0.5, 0.4], 2),
        ("valid_accuracy", [0.9, 0.5, 0.4], 1),
    ],
)
def test_losses_fall_and_rewards_rise(metric, values, best):
    watched = Best(metric, "param")
    for step, value in enumerate(values, 1):
        watched.see(step, {metric: value, "other": 0.0})
    assert (watched.step, watched.value) == (best, values[best - 1])
    assert watched.since == len(values) - best


def test_a_gain_below_the_least_does_not_count():
    watched = Best("loss", "param", least_gain=0.5)
    assert [watched.see(step, {"loss": x}) for step, x in enumerate([3.0, 2.6, 2.4], 1)] == [
        True,
        False,
        True,
    ]


def test_a_metric_that_is_not_measured_is_refused_with_those_that_are(watched):
    with pytest.raises(RunFailure) as failure:
        watched(early_stopping={"metric": "accuracy"})
    error = failure.value.error
    assert (error.code, error.param) == ("unknown_metric", "trainer.early_stopping.metric")
    assert "measured are full_valid_loss" in error.message


def test_a_run_that_gets_worse_ends_early_as_done_and_keeps_its_best(watched):
    run = watched(
        **WRONG_WAY,
        early_stopping={"patience": 2},
        checkpoint={"keep_last": 1, "every": 1, "keep_best": "full_valid_loss"},
        schedule={"kind": "constant", "warmup_ratio": 0.0},
    )
    losses = [event.metrics["full_valid_loss"] for event in run.of("evaluated")]
    best = losses.index(min(losses))
    (finished,) = run.of("finished")
    assert finished.step == best + 2 < 8
    (note,) = (event for event in run.of("noted") if event.code == "early_stopping")
    assert (note.data["step"], note.data["best"]) == (best, pytest.approx(min(losses)))
    kept = {folder.name for folder in (run.directory / "checkpoints").iterdir()}
    assert kept == {checkpoint_name(step) for step in (best, finished.step) if step}


def test_a_resumed_run_remembers_what_was_best(make_spec, train, held_out):
    trainer = {
        **WRONG_WAY,
        "evaluation": {"every": 1},
        "early_stopping": {"patience": 3},
        "schedule": {"kind": "constant", "warmup_ratio": 0.0},
    }
    spec = make_spec(validation_file=held_out, trainer=trainer)
    whole = train(spec, "whole")
    train(spec, "parts", stop_at=1)
    parts = train(spec, "parts")
    assert parts.of("finished")[0].step == whole.of("finished")[0].step < 8
    assert parts.state["best"] == whole.state["best"]
