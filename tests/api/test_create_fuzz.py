"""No body whatever makes the server fail, and what it takes it can show again."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = {"content-type": "application/json"}
JOBS = "/v1/fine_tuning/jobs"
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(1, 8)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "auto",
            "supervised",
            "dpo",
            "grpo",
            "reinforcement",
            "sgd",
            "apollo",
            "cosine",
            "tiny",
            "\x00",
        ]
    )
)
FIELDS = [
    "model", "training_file", "validation_file", "method", "hyperparameters", "suffix", "seed",
    "metadata", "integrations", "trainer", "type", "supervised", "n_epochs", "batch_size",
    "learning_rate_multiplier", "optimizer", "schedule", "stream", "kind", "rank", "scale",
    "learning_rate", "context_length", "checkpoint", "every", "max_steps",
    "objective", "dpo", "beta", "reinforcement", "grader", "evaluation", "eval_interval", "loss",
]  # fmt: skip
KEYS = st.sampled_from(FIELDS) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=5)


@pytest.fixture
def taken(client, body):
    """Posts a body over a valid one; whether it was taken."""

    def post(change: object) -> bool:
        sent = {**body, **change} if isinstance(change, dict) else change
        answer = client.post(JOBS, content=json.dumps(sent).encode(), headers=JSON)
        assert answer.status_code in (200, 400, 404), (sent, answer.text)
        if answer.status_code != 200:
            assert answer.json()["error"]["message"]
            return False
        job = answer.json()
        assert client.get(f"{JOBS}/{job['id']}").json() == job
        return True

    return post


@given(change=BODIES)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_body_makes_the_server_fail(taken, change):
    taken(change)


@given(change=VALUES)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_value_makes_the_server_fail(taken, change):
    taken(change)


def test_the_body_that_is_varied_is_taken(taken):
    assert taken({})
