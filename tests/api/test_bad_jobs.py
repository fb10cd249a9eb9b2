"""Each wrong value of a create request is refused by its own name, before anything is kept."""

import pytest
from sqlalchemy import func, select

from core.store.files import add_file, set_prepared
from core.store.tables import JobRow


@pytest.fixture
def refused(client, body, database, project):
    """The error of a body with ``change``, which must be refused and leave no job."""

    def post(change, status=400):
        answer = client.post("/v1/fine_tuning/jobs", json={**body, **change})
        assert answer.status_code == status, answer.text
        query = select(func.count()).where(JobRow.project_id == project)
        with database.begin() as session:
            assert session.scalar(query) == 0
        return answer.json()["error"]

    return post


@pytest.fixture
def file_with(database, project, blobs):
    """Makes a file with this purpose, or one whose check failed."""

    def make(purpose: str, problems=None) -> str:
        blob = blobs.write([b"{}\n"])
        with database.begin() as session:
            row = add_file(session, project, filename="f", purpose=purpose, blob=blob)
            if problems is not None:
                report = {"problems": problems}
                set_prepared(session, row.id, ok=False, details="1 problem", report=report)
        return row.id

    return make


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": ""}, "model"),
        ({"trainer": {"chat_template": "{% for m in %}"}}, "trainer.chat_template"),
        ({"model": 7}, "model"),
        ({"training_file": None}, "training_file"),
        ({"training_file": "x" * 200}, "training_file"),
        ({"validation_file": ""}, "validation_file"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"suffix": ""}, "suffix"),
        ({"suffix": "a b"}, "suffix"),
        ({"suffix": "a\n"}, "suffix"),
        ({"suffix": "x" * 65}, "suffix"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": {"k": "x" * 513}}, "metadata.k"),
        ({"metadata": {"k": "a\x00"}}, "metadata.k"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": []}, "metadata"),
        ({"integrations": [{"type": "wandb"}]}, "integrations"),
        ({"trainer": {"context_length": 513}}, "trainer.context_length"),
        ({"trainer": {"context_length": -1}}, "trainer.context_length"),
        ({"trainer": {"learning_rate": 0}}, "trainer.learning_rate"),
        ({"trainer": {"optimizer": {"kind": "adamw", "eps": -1}}}, "trainer.optimizer.eps"),
        *(
            ({"trainer": {"optimizer": {"kind": kind, **words}}}, f"trainer.optimizer.{field}")
            for kind, field, words in (
                ("apollo", "rank", {"rank": -1}),
                ("apollo", "rank", {"rank": 0}),
                ("apollo", "rank", {"rank": 10**9}),
                ("apollo", "rank", {"rank": 2.5}),
                ("apollo", "update_proj_gap", {"update_proj_gap": 0}),
                ("apollo_mini", "update_proj_gap", {"update_proj_gap": -200}),
                ("apollo_mini", "update_proj_gap", {"update_proj_gap": 10**12}),
                ("apollo_mini", "scale", {"scale": 0}),
                ("apollo_mini", "scale", {"scale": -128}),
                ("apollo", "scale", {"scale": 1e30}),
                ("apollo_mini", "beta1", {"beta1": 1.0}),
                ("apollo_mini", "beta2", {"beta2": -0.1}),
                ("scale", "momentum", {"momentum": 1.5}),
                ("apollo_mini", "rank", {"rank": 4}),
                ("apollo", "projection", {"projection": "hadamard"}),
            )
        ),
        *(
            (
                {"trainer": {"precision": precision, "optimizer": {"kind": kind}}},
                "trainer.precision",
            )
            for precision in ("int8", "bfloat16")
            for kind in ("adamw", "sgd")
        ),
        ({"trainer": {"precision": "int4"}}, "trainer.precision"),
        ({"trainer": {"step": "fused", "tokens_per_pass": 64}}, "trainer.step"),
        ({"trainer": {"step": "fused", "optimizer": {"kind": "adamw"}}}, "trainer.step"),
        ({"trainer": None}, "trainer"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(refused, change, param):
    error = refused(change)
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert error["message"].startswith(f"Invalid '{param}'")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tariner": {}}, "tariner"),
        ({"trainer": {"contextlength": 64}}, "trainer.contextlength"),
        ({"trainer": {"stream": {"chunk": 1}}}, "trainer.stream.chunk"),
        ({"trainer": {"optimizer": {"kind": "sgd", "rank": 1}}}, "trainer.optimizer.rank"),
        ({"trainer": {"learning_rate_multiplier": 1}}, "trainer.learning_rate_multiplier"),
        ({"hyperparameters": {"epochs": 1}}, "hyperparameters.epochs"),
        ({"method": {"type": "supervised", "sft": {}}}, "method.sft"),
        (
            {"method": {"type": "supervised", "supervised": {"hyperparameters": {"lr": 1}}}},
            "method.supervised.hyperparameters.lr",
        ),
    ],
)
def test_an_unknown_key_is_refused_wherever_it_stands(refused, change, param):
    error = refused(change)
    assert (error["param"], error["code"]) == (param, "unknown_parameter")


def test_missing_fields_are_all_named(client):
    error = client.post("/v1/fine_tuning/jobs", json={}).json()["error"]
    assert error["code"] == "missing_required_parameter"
    assert [detail["param"] for detail in error["details"]] == ["model", "training_file"]


def test_what_int8_and_a_fused_step_cannot_be_combined_with_is_told_with_the_alternative(refused):
    error = refused({"trainer": {"precision": "int8", "optimizer": {"kind": "adamw"}}})
    assert "choose apollo_mini, apollo or scale, or precision: float32" in error["message"]
    error = refused({"trainer": {"step": "fused", "tokens_per_pass": 64}})
    assert "set trainer.tokens_per_pass to" in error["message"]
    assert "step: two_phase" in error["message"]


def test_a_context_beyond_the_models_tells_the_limit(refused):
    error = refused({"trainer": {"context_length": 513}})
    assert error["code"] == "context_length_exceeded"
    assert "at most 512" in error["message"]


def test_an_unknown_model_is_told_with_those_there_are(refused):
    error = refused({"model": "huge"}, status=404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "org/tiny" in error["message"]


@pytest.mark.parametrize("param", ["training_file", "validation_file"])
@pytest.mark.parametrize("file_id", ["file-none", "\x00", "../x"])
def test_an_unknown_file_is_told_by_the_field_that_names_it(refused, param, file_id):
    error = refused({param: file_id})
    assert (error["param"], error["code"]) == (param, "file_not_found")


@pytest.mark.parametrize("param", ["training_file", "validation_file"])
def test_a_file_of_another_purpose_is_refused(refused, file_with, param):
    error = refused({param: file_with("user_data")})
    assert (error["param"], error["code"]) == (param, f"invalid_{param}")
    assert "'user_data'" in error["message"]


def test_a_file_that_failed_its_check_is_refused_with_its_lines(refused, file_with):
    problems = [{"line": 3, "message": "not JSON"}]
    error = refused({"training_file": file_with("fine-tune", problems)})
    assert (error["code"], error["details"]) == ("invalid_training_file", problems)
    assert "1 problem" in error["message"]
