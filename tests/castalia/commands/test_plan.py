"""`castalia plan`: a table from a configuration alone, and one line where there is no plan."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import LlamaConfig


@pytest.fixture
def folder(tmp_path):
    LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1000,
    ).save_pretrained(tmp_path / "m")  # fmt: skip
    return tmp_path / "m"


@pytest.fixture
def plan(castalia):
    return lambda *words: castalia("plan", "--chunk-tokens", 128, *words, LOG="")


def longest(said):
    assert said.code == 0, said.err
    found = re.search(r"longest context: ([\d,]+) tokens", said.out)
    assert found, said.out
    return int(found[1].replace(",", ""))


def test_the_longest_context_is_what_the_table_is_about(plan, folder):
    said = plan("--model", folder, "--device-gib", 1)
    assert f"llama, {longest(said):,} tokens" in said.out
    assert "fits into 1 GiB" in said.out
    assert "kept states" in said.out


def test_a_file_does_as_well_as_its_folder(plan, folder):
    words = ("--device-gib", 1, "--model")
    assert plan(*words, folder).out == plan(*words, folder / "config.json").out


@pytest.mark.parametrize(
    "better", [("--device-gib", 2), ("--store", "cpu"), ("--optimizer", "apollo_mini", "--fused")]
)
def test_more_memory_or_less_to_hold_gives_a_longer_context(better, plan, folder):
    least = ("--model", folder, "--device-gib", 1, "--optimizer", "adamw", "--precision", "float32")
    assert longest(plan(*least, *better)) > longest(plan(*least))


@pytest.mark.parametrize(
    "words", [("--optimizer", "adamw", "--fused"), ("--optimizer", "sgd", "--precision", "int8")]
)
def test_what_a_job_would_be_refused_has_no_plan(words, plan, folder):
    said = plan("--model", folder, "--device-gib", 1, *words)
    assert said.code == 1
    assert "choose apollo_mini" in said.err


def test_int8_weights_take_a_quarter_of_float32(plan, folder):
    rows = {}
    for precision in ("float32", "int8"):
        said = plan("--model", folder, "--device-gib", 1, "--precision", precision, "--fused")
        rows[precision] = float(re.search(r"weights +│ +([0-9.]+)", said.out)[1])
    assert rows["int8"] < 0.5 * rows["float32"] + 0.01


def test_a_context_that_does_not_fit_says_so(plan, folder):
    context = 2 * longest(plan("--model", folder, "--device-gib", 1))
    said = plan("--model", folder, "--device-gib", 1, "--context", context)
    assert f"{context:,} tokens" in said.out
    assert "does not fit into 1 GiB" in said.out


def test_too_little_for_one_chunk_is_one_line(plan, folder):
    said = plan("--model", folder, "--device-gib", 0.001)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "0.001 GiB are too few: one chunk of 128 tokens needs 0." in said.err


def test_no_model_there_is_one_line(plan, tmp_path):
    said = plan("--model", tmp_path / "none", "--device-gib", 1)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "there is no file" in said.err


def test_an_unknown_type_of_model_is_one_line(plan, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "none_such"}')
    said = plan("--model", tmp_path, "--device-gib", 1)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "cannot be read" in said.err


def test_auto_reaches_the_longest_context_and_takes_longer_chunks_below_it(castalia, folder):
    words = ("plan", "--model", folder, "--device-gib", 1, "--chunk-tokens", "auto")
    furthest = longest(castalia(*words))
    assert furthest == longest(castalia(*words[:-1], 256)) > longest(castalia(*words[:-1], 4096))
    assert "in chunks of 4,096" in castalia(*words, "--context", furthest // 2).out
    beyond = castalia(*words, "--context", furthest + 1).out
    assert "does not fit" in beyond


@pytest.mark.parametrize("length", ["0", "-1", "x", "1.5", ""])
def test_a_chunk_length_that_is_none_is_wrong_usage(castalia, folder, length):
    said = castalia("plan", "--model", folder, "--device-gib", 1, "--chunk-tokens", length)
    assert said.code == 2
    assert "chunk-tokens" in said.err


@pytest.fixture
def job(toy_model, chat_lines, tmp_path):
    """A job file as `castalia train` takes it, its rows beside it."""

    def make(trainer=None, rows="rows.jsonl"):
        (tmp_path / "rows.jsonl").write_bytes(chat_lines(7))
        document = {"model": str(toy_model), "training_file": str(tmp_path / rows)}
        numbers = {"n_epochs": 2, "batch_size": 2}
        document |= {
            "hyperparameters": numbers,
            "trainer": {"context_length": 64} | (trainer or {}),
        }
        (tmp_path / "job.json").write_text(json.dumps(document))
        return tmp_path / "job.json"

    return make


def as_json(castalia, *words):
    said = castalia("plan", *words, "--json", LOG="")
    assert said.code == 0, said.err
    return json.loads(said.out)


def test_a_job_is_planned_as_it_stands_with_its_steps_and_disk(castalia, job):
    lora = {"adapter": {"kind": "lora", "rank": 2}, "optimizer": {"kind": "adamw"}}
    whole, small = as_json(castalia, job()), as_json(castalia, job(lora))
    assert (whole["steps"], whole["fits"], whole["context_length"]) == (8, None, 64)
    assert small["phases"][0]["gradients"] < whole["phases"][0]["gradients"]
    assert small["disk"]["checkpoint"] < whole["disk"]["checkpoint"]
    shown = castalia("plan", job(), "--device-gib", 1, LOG="").out
    assert "8 steps over" in shown
    assert "fits into 1 GiB" in shown


def test_options_are_said_in_place_of_the_job_s_own_words(castalia, job):
    plain = as_json(castalia, job())
    other = as_json(castalia, job(), "--precision", "bfloat16", "--context", 48)
    assert other["context_length"] == 48
    assert other["phases"][0]["weights"] == plain["phases"][0]["weights"] // 2


def test_rows_that_are_not_here_are_taken_to_be_as_long_as_the_context(castalia, job):
    plan = as_json(castalia, job(rows="file-of-a-service"))
    assert (plan["steps"], plan["tokens"], plan["tokens_a_row"]) == (None, None, 64)


@pytest.mark.parametrize(
    ("trainer", "named"),
    [
        ({"context_lenght": 8}, "trainer.context_lenght"),
        ({"context_length": 10**6}, "trainer.context_length"),
        ({"adapter": {"kind": "lora", "targets": ["query"]}}, "trainer.adapter.targets"),
    ],
)
def test_a_job_that_would_be_refused_is_one_line_with_the_field(trainer, named, castalia, job):
    said = castalia("plan", job(trainer), LOG="")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert named in said.err


def test_neither_a_job_nor_a_model_is_wrong_usage(castalia):
    assert castalia("plan").code == 2


def test_readme_shows_what_the_command_prints():
    code = (
        "import write_plan_table as t; print(t.PAGE.read_text().count(t.BEGIN + t.table() + t.END))"
    )
    scripts = Path(__file__).parents[3] / "scripts"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=scripts
    )
    assert done.stdout == "1\n", "README's table is not what the code makes: run `make docs`"


def test_the_command_line_itself_stays_without_torch():
    code = "import sys, castalia.__main__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
