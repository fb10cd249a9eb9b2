"""A step on pairs gives the loss and the gradients of plain autograd, one answer at a time."""

from math import log

import pytest
import torch
from torch.nn.functional import softplus
from transformers import AutoConfig, AutoModelForCausalLM

from core.data.pair import Answer, EncodedPair
from core.streambp import attach
from core.train.lessons.preference import PreferenceLesson

WORDS = {
    "sigmoid": {"beta": 0.3},
    "smoothed": {"beta": 0.3, "label_smoothing": 0.2},
    "robust": {"loss": "robust", "beta": 0.3, "label_smoothing": 0.2},
    "hinge": {"loss": "hinge", "beta": 0.05},
    "ipo": {"loss": "ipo", "beta": 0.3},
    "simpo": {"beta": 2.0, "reference": "none", "length_normalised": True, "target_margin": 0.5},
    "nll": {"beta": 0.3, "nll_weight": 0.7},
}
PASSES = {"one": 4096, "two": 60, "four": 1}
TOLERANCE = {"gpt2": 1e-10, "qwen3_next": 1e-6}  # which casts to float32 in places of its own
FAMILIES = {
    "gpt2": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 61,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    },
    # Its first layer carries a state from token to token, which mixes documents.
    "qwen3_next": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 61,
        "layer_types": ["linear_attention", "full_attention"], "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "linear_num_key_heads": 2,
        "shared_expert_intermediate_size": 16, "linear_num_value_heads": 2, "head_dim": 8,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}  # fmt: skip


def pairs():
    """Four of them, no two alike in length; of the last an answer holds tokens that are not scored."""
    ids = torch.Generator().manual_seed(2)

    def some(count):
        return torch.randint(2, 61, (count,), generator=ids).tolist()

    sizes = [(9, 5, 3), (6, 2, 7), (12, 4, 4), (3, 6, 1)]
    made = [EncodedPair(some(p), *(Answer(some(n), [True] * n) for n in a)) for p, *a in sizes]
    made[3].chosen.scored[1:3] = [False, False]
    return made


def tiny(family):
    words = {**FAMILIES[family], "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 1}
    config = AutoConfig.for_model(family, **words)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, experts_implementation="eager").double()


def moved(model):
    """What some steps do to the weights."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)


@pytest.fixture
def lesson(make_spec):
    def make(model, words, tokens_per_pass=4096, rows=None):
        objective = {"kind": "dpo", **words}
        spec = make_spec(trainer={"objective": objective, "tokens_per_pass": tokens_per_pass})
        rows = pairs() if rows is None else rows
        return PreferenceLesson(spec, model, None, rows, rows[:2])

    return make


def plain_logps(model, made):
    """(P, 2): each answer alone, from the logits of the stock model."""
    table = []
    for branch in (branch for pair in made for branch in pair.branches):
        ids = torch.tensor([branch.input_ids])
        logits = model(ids).logits[0, :-1]
        logp = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        table.append(logp[torch.tensor(branch.trained[1:])].sum())
    return torch.stack(table).view(-1, 2)


def plain_loss(name, logp, reference, count):
    """The papers' formulas, for the words of WORDS."""
    raw = (logp - reference) @ torch.tensor([1.0, -1.0], dtype=torch.float64)
    mean = (logp / count) @ torch.tensor([1.0, -1.0], dtype=torch.float64)
    right, wrong = softplus(-0.3 * raw), softplus(0.3 * raw)
    losses = {
        "sigmoid": right,
        "smoothed": 0.8 * right + 0.2 * wrong,
        "robust": (0.8 * right - 0.2 * wrong) / 0.6,
        "hinge": (1 - 0.05 * raw).clamp(min=0),
        "ipo": (raw - 1 / 0.6).square(),
        "simpo": softplus(0.5 - 2 * mean),
        "nll": right - 0.7 * logp[:, 0] / count[:, 0],
    }
    return losses[name].mean()


def plain_step(family, name):
    model, made = tiny(family), pairs()
    with torch.no_grad():
        reference = plain_logps(model, made)
    moved(model)
    count = torch.tensor([[sum(answer.scored) for answer in pair.answers] for pair in made])
    loss = plain_loss(name, plain_logps(model, made), reference, count)
    loss.backward()
    return loss.item(), gradients(model)


def gradients(model):
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def furthest(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def step(lesson, family, words, tokens_per_pass=4096):
    """The lesson's figures and gradients after the weights have moved."""
    model = tiny(family)
    with attach(model, chunk_tokens=5):
        taught = lesson(model, words, tokens_per_pass)
        taught.begin()
        moved(model)
        return taught.learn([0, 1, 2, 3], 1, None), gradients(model), taught


@pytest.mark.parametrize("name", WORDS)
def test_loss_and_gradients_are_those_of_the_plain_model(lesson, name):
    loss, wanted = plain_step("gpt2", name)
    learnt, found, _ = step(lesson, "gpt2", WORDS[name])
    assert learnt.loss == pytest.approx(loss, abs=1e-10)
    assert furthest(found, wanted) < 1e-10


@pytest.mark.parametrize("tokens_per_pass", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_they_do_not_depend_on_the_passes_or_on_whether_a_prompt_is_shared(
    lesson, family, tokens_per_pass
):
    loss, wanted = plain_step(family, "nll")
    learnt, found, taught = step(lesson, family, WORDS["nll"], tokens_per_pass)
    assert learnt.loss == pytest.approx(loss, abs=TOLERANCE[family])
    assert furthest(found, wanted) < TOLERANCE[family]
    told = [remark.code for remark in taught.remarks()]
    shares = family == "gpt2"
    assert told == ([] if shares else ["prompts.not_shared"])
    prompts, answers = (9 + 6 + 12 + 3), (5 + 3 + 2 + 7 + 4 + 4 + 6 + 1)
    assert learnt.tokens == (1 if shares else 2) * prompts + answers
    assert learnt.targets == answers - 2


def test_a_short_last_window_is_a_mean_over_its_own_pairs(lesson):
    model = tiny("gpt2")
    with attach(model, chunk_tokens=5):
        taught = lesson(model, WORDS["sigmoid"])
        taught.begin()
        moved(model)
        alone = taught.learn([2], 1, None)
        singles = [taught.learn([row], 1, None).loss for row in range(4)]
        assert alone.loss == pytest.approx(singles[2], abs=1e-12)
        assert taught.learn([0, 1, 2, 3], 1, None).loss == pytest.approx(
            sum(singles) / 4, abs=1e-12
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_before_the_first_step_no_answer_is_preferred(lesson, family):
    model = tiny(family)
    with attach(model, chunk_tokens=5):
        taught = lesson(model, {}, 60)
        taught.begin()
        learnt = taught.learn([3, 1], 1, None)
        valid = taught.measure()
    assert learnt.loss == pytest.approx(log(2), abs=1e-12)
    assert learnt.metrics["reward_margin"] == pytest.approx(0, abs=1e-12)
    assert valid["full_valid_loss"] == log(2)
    assert (valid["valid_reward_margin"], valid["valid_reward_accuracy"]) == (0.0, 0.5)
    with torch.no_grad():
        logp = plain_logps(tiny(family), pairs()[:2]).mean(0).tolist()
    assert [valid["valid_logp_chosen"], valid["valid_logp_rejected"]] == pytest.approx(logp)


def test_without_a_reference_none_is_computed(lesson):
    model = tiny("gpt2")
    with attach(model, chunk_tokens=5):
        taught = lesson(model, WORDS["simpo"])
        taught.begin()
    assert taught.state() == {"reference": {}}
