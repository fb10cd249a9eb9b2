"""What OpenAI's words for method and hyperparameters mean here, and where they contradict."""

import pytest


@pytest.fixture
def post(client, body):
    def do(**change):
        return client.post("/v1/fine_tuning/jobs", json={**body, **change})

    return do


def supervised(**numbers):
    return {"type": "supervised", "supervised": {"hyperparameters": numbers}}


def test_a_method_that_nobody_knows_lists_those_there_are(post):
    error = post(method={"type": "rlhf"}).json()["error"]
    assert error["param"] == "method.type"
    assert "supervised" in error["message"]


def test_settings_of_another_method_are_not_ignored(post):
    error = post(method={"type": "supervised", "dpo": {"hyperparameters": {}}}).json()["error"]
    assert error["param"] == "method.dpo"
    assert "only method.supervised is" in error["message"]


@pytest.mark.parametrize("name", ["n_epochs", "batch_size", "learning_rate_multiplier"])
@pytest.mark.parametrize("value", [0, -1, 1e9, "many", True, None, [1], {}])
@pytest.mark.parametrize("place", ["hyperparameters", "method.supervised.hyperparameters"])
def test_an_absurd_number_is_refused_where_it_stands(post, name, value, place):
    numbers = {name: value}
    sent = {"method": supervised(**numbers)} if "." in place else {"hyperparameters": numbers}
    answer = post(**sent)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"{place}.{name}"


def test_the_bound_is_told_before_the_word_auto(post):
    message = post(hyperparameters={"n_epochs": 0}).json()["error"]["message"]
    assert "greater than or equal to 1" in message


@pytest.mark.parametrize("method", [None, {"type": "supervised"}, supervised(n_epochs="auto")])
def test_auto_and_silence_are_the_recipe(post, method):
    job = post(method=method, hyperparameters={"batch_size": "auto"}).json()
    assert job["hyperparameters"] == {
        "n_epochs": 3,
        "batch_size": 8,
        "learning_rate_multiplier": 1.0,
    }


def test_both_places_may_say_the_same_or_different_numbers(post):
    job = post(method=supervised(n_epochs=2), hyperparameters={"n_epochs": 2, "batch_size": 4})
    assert job.json()["hyperparameters"]["n_epochs"] == 2
    assert job.json()["hyperparameters"]["batch_size"] == 4


def test_two_places_that_contradict_are_refused(post):
    answer = post(method=supervised(n_epochs=2), hyperparameters={"n_epochs": 3})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "hyperparameters.n_epochs")
    assert "give it once" in error["message"]


@pytest.mark.parametrize("place", ["method", "hyperparameters"])
def test_a_rate_and_a_multiplier_cannot_be_combined(post, place):
    number = {"learning_rate_multiplier": 1.0}
    sent = {"method": supervised(**number)} if place == "method" else {"hyperparameters": number}
    answer = post(trainer={"learning_rate": 1e-4}, **sent)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "trainer.learning_rate"


@pytest.mark.parametrize("multiplier", [1e4, 5e-324])
def test_a_multiplier_that_makes_an_absurd_rate_is_refused(post, multiplier):
    answer = post(
        hyperparameters={"learning_rate_multiplier": multiplier},
        trainer={"optimizer": {"kind": "sgd"}},
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "hyperparameters.learning_rate_multiplier"
