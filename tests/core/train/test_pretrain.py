"""Pre-training on plain text: documents in packed rows, every token learnt once, by its own document."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.data.kinds import Document
from core.data.parse import ParsedRow
from core.spec.errors import ExitCode, RunFailure
from core.streambp import attach
from core.train.inputs import model_facts
from core.train.lessons.buckets import PositionBuckets
from core.train.lessons.reading import Reading
from core.train.lessons.supervised import SupervisedLesson

TEXTS = [
    "In the beginning was the word.",
    "a b c",
    "x" * 150,
    "One more, of middling length, I think.",
]


@pytest.fixture
def spec(make_spec, toy_model):
    def make(**trainer):
        trainer = {"objective": {"kind": "pretrain"}, "context_length": 64, **trainer}
        return make_spec(trainer=trainer).resolved(model_facts(str(toy_model), "toy"))

    return make


@pytest.fixture
def read(spec, toy_model):
    """The packed rows of some texts."""

    def rows(texts, **trainer):
        tokenizer = AutoTokenizer.from_pretrained(toy_model)
        parsed = [ParsedRow(line, "text", Document(text)) for line, text in enumerate(texts, 1)]
        return SupervisedLesson.read(Reading.of(spec(**trainer)), parsed, tokenizer).rows

    return rows


@pytest.fixture
def model(toy_model):
    model = AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float64)
    attach(model, chunk_tokens=8)
    return model


def loss_of(lesson):
    return lesson.measure()["full_valid_loss"]


def test_every_token_but_the_first_of_a_document_is_a_target_once(read, toy_model):
    tokenizer = AutoTokenizer.from_pretrained(toy_model)
    tokens = [
        len(tokenizer(text)["input_ids"]) + 1 for text in TEXTS
    ]  # and the end of the document
    rows = read(TEXTS)
    assert sum(row.targets for row in rows) == sum(tokens) - len(TEXTS)
    assert all(len(row) <= 64 for row in rows)
    assert len(rows) < len(TEXTS) + 150 // 64  # packed


def test_the_loss_of_packed_documents_is_that_of_documents_apart(read, model, spec):
    """Case 6: loss(pack) = loss(a) + loss(b), however many documents stand in a row."""
    packed, apart = read(TEXTS), read(TEXTS, packing=False)
    assert len(packed) < len(apart)
    one, other = (SupervisedLesson(spec(), model, None, [], rows) for rows in (packed, apart))
    assert loss_of(one) == pytest.approx(loss_of(other), abs=1e-12)


def test_a_document_does_not_see_the_one_before_it(read, model, spec):
    """Case 6: changing any token of a leaves b's log-probabilities as they are, bit for bit."""
    tail, losses = TEXTS[3], []
    for text in ("abcdefg", "gfedcba"):
        rows = read([text, tail])
        assert [part.line for row in rows for part in row.parts] == [1, 2]
        first, second = rows[0].parts
        both = SupervisedLesson(spec(), model, None, [], rows)
        losses.append(loss_of(both) * rows[0].targets - _alone(both, first, spec, model))
        assert second.targets + first.targets == rows[0].targets
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)


def _alone(_, part, spec, model):
    return loss_of(SupervisedLesson(spec(), model, None, [], [part])) * part.targets


def test_a_run_learns_the_text_and_its_weights_load_anywhere(make_spec, train, tmp_path):
    path = tmp_path / "book.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 4))
    trainer = {"objective": {"kind": "pretrain"}, "learning_rate": 3e-3}
    run = train(
        make_spec(training_file=str(path), trainer=trainer, hyperparameters={"n_epochs": 4})
    )
    losses = [metrics["train_loss"] for metrics in run.steps.values()]
    assert sum(losses[-3:]) < sum(losses[:3])
    (packed,) = (event for event in run.of("noted") if event.code == "rows.packed")
    assert packed.data["packed"] < packed.data["rows"]
    AutoModelForCausalLM.from_pretrained(run.checkpoint)


def test_rows_of_another_kind_are_refused_with_what_is_wanted(make_spec, train):
    with pytest.raises(RunFailure) as failure:
        train(make_spec(trainer={"objective": {"kind": "pretrain"}}))
    assert failure.value.exit_code is ExitCode.data
    assert failure.value.error.param == "training_file"
    assert "pretrain" in failure.value.error.message


def test_losses_by_position_add_up_to_the_mean():
    buckets = PositionBuckets()
    loss_BT = torch.rand(1, 20_000, generator=torch.Generator().manual_seed(0))
    weight_BT = (loss_BT > 0.3).double()
    buckets.add(loss_BT, weight_BT, torch.arange(20_000)[None])
    found = buckets.metrics("loss")
    assert list(found) == ["loss", "loss_0-4k", "loss_4k-16k", "loss_16k-64k"]
    mean = (loss_BT * weight_BT).sum() / weight_BT.sum()
    assert found["loss"] == pytest.approx(mean.item())
    first = slice(0, 4096)
    assert found["loss_0-4k"] == pytest.approx(
        ((loss_BT * weight_BT)[0, first].sum() / weight_BT[0, first].sum()).item()
    )
