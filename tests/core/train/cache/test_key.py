"""Rows are found again by all that they depend on, and by nothing else."""

import gzip
import json
import shutil
from datetime import UTC, datetime

import pytest
from transformers import AutoTokenizer

from core.spec.errors import RunFailure
from core.train.cache.key import day_of

CUT = {"context_length": 32, "on_overlength": "truncate_right"}


def test_the_same_rows_are_found_with_their_digests_and_counts(read):
    first, again = read(trainer=CUT), read(trainer=CUT)
    assert (first.cached, again.cached) == (False, True)
    assert (again.read, again.digests) == (first.read, first.digests)
    assert first.read.report.truncated > 0


def test_what_rows_do_not_depend_on_finds_them(read, training_path, tmp_path, toy_model):
    read()
    assert read(seed=3, trainer={"learning_rate": 0.5, "precision": "bfloat16"}).cached
    renamed = training_path.rename(tmp_path / "renamed.jsonl")
    elsewhere = shutil.copytree(toy_model, tmp_path / "elsewhere")
    tokenizer = AutoTokenizer.from_pretrained(elsewhere)
    assert read(tokenizer, training_file=str(renamed)).cached


@pytest.mark.parametrize(
    "trainer",
    [
        {"context_length": 80},
        {"on_overlength": "drop"},
        {"packing": True},
        {"objective": {"kind": "sft", "train_on": "all"}},
    ],
)
def test_another_reading_misses(read, trainer):
    read()
    assert not read(trainer=trainer).cached
    assert read().cached


def test_a_changed_byte_in_the_file_misses(read, training_path):
    before = read()
    data = training_path.read_bytes()
    training_path.write_bytes(data.replace(b"ab", b"ac", 1))
    after = read()
    assert not after.cached
    assert after.read.rows != before.read.rows
    training_path.write_bytes(data)
    assert read().cached


def test_another_chat_template_in_force_misses(read, tokenizer):
    before = read()
    tokenizer.chat_template = tokenizer.chat_template.replace("\n", " ")
    after = read()
    assert not after.cached
    assert after.read.rows != before.read.rows


def test_another_tokenizer_misses(read, toy_model, tmp_path):
    before = read()
    other = shutil.copytree(toy_model, tmp_path / "other")
    file = json.loads((other / "tokenizer.json").read_text())
    vocab = file["model"]["vocab"]
    vocab["a"], vocab["e"] = vocab["e"], vocab["a"]
    (other / "tokenizer.json").write_text(json.dumps(file))
    after = read(AutoTokenizer.from_pretrained(other))
    assert not after.cached
    assert after.read.rows != before.read.rows


def test_compressed_rows_are_kept_too(read, training_path, tmp_path):
    packed = tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress(training_path.read_bytes()))
    first, again = (read(training_file=str(packed)) for _ in range(2))
    assert (first.cached, again.cached) == (False, True)
    assert again.read == first.read == read().read


def test_nothing_is_kept_of_a_file_with_a_fault(read, training_path, place):
    training_path.write_bytes(training_path.read_bytes() + b"{broken\n")
    for _ in range(2):
        with pytest.raises(RunFailure, match="line 8"):
            read()
    assert not list(place.folder.glob("*"))


def test_a_template_that_prints_the_date_is_good_for_a_day(tokenizer):
    days = [datetime(2026, 11, day, tzinfo=UTC) for day in (29, 30)]
    assert {day_of(tokenizer, day) for day in days} == {""}
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}" + tokenizer.chat_template
    assert [day_of(tokenizer, day) for day in days] == ["2026-11-29", "2026-11-30"]
