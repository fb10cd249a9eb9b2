"""A run that was stopped and started again ends with the bits of one that never was."""

import pytest
import torch

from core.spec.errors import ExitCode, RunFailure

OPTIMIZERS = {
    "apollo_mini": {"kind": "apollo_mini", "update_proj_gap": 3},
    "apollo": {"kind": "apollo", "rank": 4, "update_proj_gap": 3},
    "svd": {"kind": "apollo", "rank": 4, "update_proj_gap": 3, "projection": "svd"},
    "scale": {"kind": "scale"},
    "adamw": {"kind": "adamw"},
}
STARTED, STEPS = 2, 5
"""Events up to the first step, and up to the end of step 5: in the second epoch, and not where a
projection is drawn anew."""


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_weights_state_and_metrics_are_bit_equal(make_spec, train, bit_equal, optimizer):
    spec = make_spec(trainer={"optimizer": optimizer})
    whole = train(spec, "whole")
    stopped = train(spec, "cut", stop_at=STARTED + STEPS + 1)
    assert (stopped.events[-1].kind, stopped.events[-1].step) == ("stopped", STEPS)
    assert stopped.checkpoint.name == "step-00000005"
    resumed = train(spec, "cut")
    assert [event.step for event in resumed.of("started")] == [0, STEPS]
    assert len(resumed.of("step")) == 8
    assert resumed.steps == whole.steps
    assert bit_equal(resumed.weights, whole.weights)
    assert bit_equal(resumed.state, whole.state)


def test_a_wish_to_stop_before_the_first_step_leaves_nothing_to_resume(make_spec, train):
    run = train(make_spec(), stop_at=STARTED)
    assert [event.kind for event in run.events] == ["started", "noted", "stopped"]
    assert not (run.directory / "checkpoints").exists()


def test_a_finished_run_that_is_started_again_changes_nothing(make_spec, train, bit_equal):
    spec = make_spec()
    first = train(spec)
    weights, state, finished = first.weights, first.state, first.events[-1]
    again = train(spec)
    assert bit_equal(again.weights, weights)
    assert bit_equal(again.state, state)
    assert len(again.of("step")) == 8
    assert again.events[-1].model_copy(update={"at": finished.at}) == finished


def test_a_directory_with_another_spec_s_run_is_refused(make_spec, train):
    run = train(make_spec(), stop_at=4)
    with pytest.raises(RunFailure) as failure:
        train(make_spec(seed=1))
    assert failure.value.exit_code is ExitCode.spec
    assert (failure.value.error.code, failure.value.error.param) == (
        "checkpoint_not_resumable",
        "out",
    )
    assert str(run.directory) in failure.value.error.message
    assert "--out" in failure.value.error.hint


def test_the_state_holds_numbers_and_tensors_only(make_spec, train):
    folder = train(make_spec()).checkpoint
    state = torch.load(folder / "training_state.pt", weights_only=True)
    assert state.keys() == {
        *("step", "trained_tokens", "metrics", "optimizer", "weights"),
        *("lesson", "best", "skips"),
    }
    assert state["step"] == 8
