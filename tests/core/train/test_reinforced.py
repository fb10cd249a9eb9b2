"""GRPO as a lesson: loss and gradient of the stock model's own formula, however the step is cut."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.data.kinds import Prompt
from core.data.parse import ParsedRow
from core.data.rows import ChatRow, UserMessage
from core.models.adapter import with_adapter
from core.spec.errors import RunFailure
from core.streambp import Layout, attach, token_logps
from core.train.base import BaseModel, base_of
from core.train.inputs import model_facts
from core.train.learner import Learner
from core.train.lessons.reading import Reading
from core.train.lessons.reinforced import ReinforcedLesson

HAS_E = {
    "type": "string_check",
    "name": "e",
    "input": "{{ sample.output_text }}",
    "reference": "e",
    "operation": "ilike",
}
QUESTIONS = ("What is it?", "Say e.", "No?")


@pytest.fixture
def stock(toy_model):
    return lambda: AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float64)


@pytest.fixture
def lesson(stock, toy_model, make_spec):
    """A lesson on three prompts, with a model of its own."""

    def make(context=96, **words):
        numbers = {"group_size": 4, "max_completion_tokens": 24, "grader": HAS_E, **words}
        tokens = numbers.pop("tokens_per_pass", 4096)
        trainer = {
            "objective": {"kind": "grpo", **numbers},
            "context_length": context,
            "tokens_per_pass": tokens,
        }
        spec = make_spec(trainer=trainer).resolved(model_facts(str(toy_model), "toy"))
        tokenizer = AutoTokenizer.from_pretrained(toy_model)
        parsed = [
            ParsedRow(
                line, "rft", Prompt(ChatRow(messages=[UserMessage(role="user", content=q)]), {})
            )
            for line, q in enumerate(QUESTIONS, 1)
        ]
        model = stock()
        attach(model, chunk_tokens=8)
        rows = ReinforcedLesson.read(Reading.of(spec), parsed, tokenizer).rows
        return ReinforcedLesson(spec, model, tokenizer, rows, rows, BaseModel(stock, 8))

    return make


def step(lesson, number=1, rate=1.0):
    """One step of SGD: what was learnt, and the gradient by name."""
    before = {name: p.detach().clone() for name, p in lesson.model.named_parameters()}
    learner = Learner(lesson.spec, lesson, torch.optim.SGD(lesson.model.parameters(), lr=rate))
    learnt = learner.step(range(len(lesson.rows)), number, learning_rate=rate)
    moved = {n: (before[n] - p.detach()) / rate for n, p in lesson.model.named_parameters()}
    return learnt, moved


def scores(model, group):
    """Log-probabilities of each answer's tokens by the stock model, one row at a time."""
    found = []
    for answer in group.answers:
        ids = torch.tensor([[*group.prompt_ids, *answer.input_ids]])
        logp = model(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None])[:, 0]
        found.append(logp[len(group.prompt_ids) - 1 :])
    return found


def plain(stock, batch, loss):
    """The first update's gradient by hand: on policy every ratio is 1, and its gradient the score's."""
    model = stock()
    answers = [logp for group in batch.groups for logp in scores(model, group)]
    weighed = {
        "grpo": lambda a, logp: a * logp.mean() / len(answers),
        "gspo": lambda a, logp: a * logp.mean() / len(answers),
        "dapo": lambda a, logp: a * logp.sum() / batch.tokens,
        "dr_grpo": lambda a, logp: a * logp.sum() / len(answers) / 24,
    }[loss]
    advantages = batch.advantage_A.tolist()
    total = -sum(weighed(a, logp) for a, logp in zip(advantages, answers, strict=True))
    total.backward()
    return {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo", "gspo"])
def test_the_first_update_is_the_policy_gradient(lesson, stock, loss):
    taught = lesson(loss=loss, updates_per_batch=2)
    learnt, moved = step(taught)
    want = plain(stock, taught._batch, loss)
    assert learnt.metrics["clip_share"] == 0
    assert any(gradient.abs().max() > 1e-6 for gradient in want.values())
    for name, gradient in want.items():
        torch.testing.assert_close(moved[name], gradient, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.parametrize("words", [{}, {"kl_weight": 0.5, "loss": "grpo"}], ids=["dapo", "kl"])
def test_however_a_step_is_cut_it_is_the_same(lesson, words):
    """Case 12: micro-batches change nothing, for the denominator is the whole step's."""
    found = []
    for tokens in (1, 150, 4096):
        taught = lesson(tokens_per_pass=tokens, updates_per_batch=2, **words)
        step(taught, rate=0.5)
        found.append((len(list(taught._passes(taught._batch))), step(taught, 2)))
    assert [passes for passes, _ in found] == [3, 3, 1]
    _, (first, gradients) = found[0]
    for _, (learnt, moved) in found[1:]:
        assert learnt.loss == pytest.approx(first.loss, abs=1e-10)
        for name, gradient in gradients.items():
            torch.testing.assert_close(moved[name], gradient, rtol=1e-7, atol=1e-10, msg=name)


def test_answers_that_stand_alone_teach_the_same_as_a_shared_row(lesson):
    together, alone = lesson(), lesson()
    alone._mixing = ("layers.0",)
    (one, moved), (other, moved_alone) = step(together), step(alone)
    assert one.loss == pytest.approx(other.loss, abs=1e-10)
    for name, gradient in moved.items():
        torch.testing.assert_close(moved_alone[name], gradient, rtol=1e-6, atol=1e-8, msg=name)
    assert [remark.code for remark in alone.remarks()] == ["prompts.not_shared"]


def test_without_a_difference_in_reward_no_weight_moves_and_it_is_told(lesson):
    always = {**HAS_E, "reference": "", "operation": "like"}
    learnt, moved = step(lesson(grader=always))
    assert not learnt.signal
    assert learnt.metrics["groups_without_signal"] == 1
    assert learnt.metrics["reward_mean"] == 1
    assert not any(gradient.any() for gradient in moved.values())


def test_the_divergence_is_nothing_before_the_first_step_and_something_after_it(lesson):
    taught = lesson(kl_weight=0.1)
    first, _ = step(taught, 1, rate=2.0)
    second, _ = step(taught, 2, rate=2.0)
    assert first.metrics["kl"] == pytest.approx(0, abs=1e-12)
    assert second.metrics["kl"] > 1e-6


def test_beside_an_adapter_the_base_is_the_model_without_it(stock, make_spec, toy_model):
    model = stock()
    spec = make_spec(trainer={"adapter": {"kind": "lora"}}).resolved(
        model_facts(str(toy_model), "t")
    )
    with_adapter(model, spec.trainer.adapter, seed=0, base="t")
    for name, param in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(param)
    attach(model, chunk_tokens=8)
    ids_BT = torch.arange(2, 22)[None]
    layout = Layout.causal([20], 20)
    with torch.no_grad(), base_of(spec, str(toy_model), model)() as base:
        want = token_logps(base, ids_BT, ids_BT, layout, head_chunk_tokens=8)
    stocked = stock()
    with torch.no_grad(), attach(stocked, chunk_tokens=8):
        found = token_logps(stocked, ids_BT, ids_BT, layout, head_chunk_tokens=8)
        adapted = token_logps(model, ids_BT, ids_BT, layout, head_chunk_tokens=8)
    torch.testing.assert_close(found, want)
    assert (adapted - want).abs().max() > 0.01


def test_a_batch_serves_its_updates_and_is_sampled_anew_after_them(lesson):
    taught = lesson(updates_per_batch=2)
    step(taught, 1, rate=1e-3)
    sampled = taught._batch
    assert sampled is not None
    step(taught, 2, rate=1e-3)
    assert taught._batch is None
    step(taught, 3, rate=1e-3)
    assert taught._batch.groups != sampled.groups


def test_a_batch_comes_back_from_its_state(lesson):
    taught, other = lesson(updates_per_batch=2), lesson(updates_per_batch=2)
    step(taught, 1, rate=0.1)
    other.model.load_state_dict(taught.model.state_dict())
    other.load_state(taught.state())
    (one, moved), (two, again) = step(taught, 2), step(other, 2)
    assert (one.loss, one.metrics) == (two.loss, two.metrics)
    assert all(torch.equal(moved[name], again[name]) for name in moved)


def test_a_grader_that_always_fails_ends_the_run_and_says_why(lesson):
    broken = {**HAS_E, "reference": "{{ item.answer }}"}
    with pytest.raises(RunFailure) as failure:
        step(lesson(grader=broken))
    error = failure.value.error
    assert (error.code, error.param) == ("grader_always_failing", "trainer.objective.grader")
    assert "invalid_variable_error" in error.message
    assert "lines 1, 2, 3" in error.message


def test_held_out_prompts_are_measured_with_the_same_random_numbers(lesson):
    taught = lesson(eval_samples=3)
    found = taught.measure()
    assert found == taught.measure()
    assert set(found) == {
        "valid_reward_mean",
        "valid_reward_std",
        "valid_completion_tokens",
        "valid_truncated_share",
    }


def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused_by_its_line(lesson):
    with pytest.raises(
        ValueError, match=r"line 1 has a prompt of \d+ tokens.*max_completion_tokens"
    ):
        lesson(context=40)
