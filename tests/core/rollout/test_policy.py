"""Answers depend on the policy, the seed and the row; on nothing that surrounds them."""

import pytest
import torch

from core.optim import quantise_model
from core.rollout import PolicySampler
from core.rollout.errors import SamplingError
from core.streambp import attach

ROW = 7 + 6  # tokens of the longest row


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text"])
def test_answers_are_the_same_for_batches_of_1_4_and_8_and_for_each_prompt_alone(
    family, tiny, sampled, prompts
):
    model = tiny(family)
    want = sampled(PolicySampler(model, tokens_at_once=1))
    for rows in (4, 8, 100):
        assert sampled(PolicySampler(model, tokens_at_once=rows * ROW)) == want
    sampler = PolicySampler(model, tokens_at_once=8 * ROW)
    for row, prompt in enumerate(prompts):
        assert sampled(sampler, [prompt], [row]) == [want[row]]
    assert sampled(sampler, prompts[::-1], range(len(prompts))[::-1]) == want[::-1]


def test_answers_differ_between_samples_rows_and_steps_and_come_again(tiny, sampled):
    sampler = PolicySampler(tiny("llama"), tokens_at_once=100)
    first = sampled(sampler, [[5, 6], [5, 6]])
    assert sampled(sampler, [[5, 6], [5, 6]]) == first
    again = sampled(sampler, [[5, 6], [5, 6]], step=5)
    answers = [tuple(a.token_ids) for group in (*first, *again) for a in group]
    assert len(set(answers)) == len(answers)


def test_an_answer_ends_with_its_stop_token_or_is_cut_at_the_limit(tiny, sampled):
    stops = frozenset({2, 7, 8, 9, 10, 11})
    groups = sampled(PolicySampler(tiny("llama"), tokens_at_once=50), stop_ids=stops)
    answers = [answer for group in groups for answer in group]
    for answer in answers:
        assert not stops & set(answer.token_ids[:-1])
        assert answer.finished == (answer.token_ids[-1] in stops)
        assert answer.finished or len(answer.token_ids) == 6
    assert {answer.finished for answer in answers} == {True, False}


def test_without_a_stop_token_every_answer_reaches_the_limit(tiny, sampled):
    sampler = PolicySampler(tiny("llama"), tokens_at_once=50)
    for limit in (1, 5):
        groups = sampled(sampler, max_completion_tokens=limit, stop_ids=frozenset())
        assert {(len(a.token_ids), a.finished) for g in groups for a in g} == {(limit, False)}
    assert sampled(sampler, []) == []


def test_generation_settings_of_the_model_have_no_say(tiny, sampled):
    model = tiny("llama")
    want = sampled(PolicySampler(model, tokens_at_once=100), temperature=3.0)
    model.generation_config.update(
        top_k=1, top_p=0.1, repetition_penalty=5.0, max_new_tokens=1, eos_token_id=9,
        num_return_sequences=2, do_sample=True, use_cache=False, temperature=0.1,
    )  # fmt: skip
    assert sampled(PolicySampler(model, tokens_at_once=100), temperature=3.0) == want


def test_first_tokens_have_the_policys_probabilities(tiny, sampled):
    model = tiny("llama", vocab_size=8)
    groups = sampled(
        PolicySampler(model, tokens_at_once=10**6), [[5, 6]], group_size=4000,
        max_completion_tokens=1, temperature=1.5,
    )  # fmt: skip
    count = torch.bincount(torch.tensor([a.token_ids[0] for a in groups[0]]), minlength=8)
    logits = model.eval()(input_ids=torch.tensor([[5, 6]])).logits[0, -1].detach()
    expected = (logits / 1.5).softmax(-1) * 4000
    assert float(((count - expected).square() / expected).sum()) < 24.4  # 7 degrees: 1 in 1000


def test_mode_gradients_streaming_and_generators_stay_as_they_were(tiny, sampled):
    model = tiny("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    stock = sampled(PolicySampler(model, tokens_at_once=100))
    model.transformer.h[0].eval()
    model.lm_head.weight.grad = torch.ones_like(model.lm_head.weight)
    with attach(model, chunk_tokens=4):
        forwards = [layer.forward for layer in model.transformer.h]
        before, modes = torch.get_rng_state(), [m.training for m in model.modules()]
        assert sampled(PolicySampler(model, tokens_at_once=100)) == stock
        assert torch.equal(torch.get_rng_state(), before)
        assert [m.training for m in model.modules()] == modes
        assert [layer.forward for layer in model.transformer.h] == forwards
    assert all(p.grad is None for p in model.parameters() if p is not model.lm_head.weight)
    assert torch.equal(model.lm_head.weight.grad, torch.ones_like(model.lm_head.weight))


def test_a_prompt_is_read_once_for_all_answers_to_it(tiny, sampled):
    model, read = tiny("llama"), []
    sampler = PolicySampler(model, tokens_at_once=1000)
    embedding = model.get_input_embeddings()
    embedding.register_forward_pre_hook(lambda _, args: read.append(tuple(args[0].shape)))
    sampled(sampler, [[5, 6, 7], [3, 4]], max_completion_tokens=2, stop_ids=frozenset())
    assert read == [(2, 3), (6, 1)]


def test_int8_weights_work_during_the_call_alone(tiny, sampled):
    model = tiny("llama").float()
    names = quantise_model(model, group=8)
    with attach(model, chunk_tokens=4):
        sampler = PolicySampler(model, tokens_at_once=100)
        answers = sampled(sampler)
        assert sampled(sampler) == answers
    params = dict(model.named_parameters())
    assert names
    assert all(params[name].held.form is None for name in names)


def test_bfloat16_answers_come_again(tiny, sampled):
    model = tiny("qwen3").to(torch.bfloat16)
    first = sampled(PolicySampler(model, tokens_at_once=100))
    assert sampled(PolicySampler(model, tokens_at_once=100)) == first


def test_what_nothing_can_be_drawn_from_is_refused(tiny, sampled):
    sampler = PolicySampler(tiny("llama"), tokens_at_once=100)
    with pytest.raises(SamplingError, match=r"prompts\[1\]"):
        sampled(sampler, [[5], []])
    with pytest.raises(SamplingError, match="rows"):
        sampled(sampler, [[5], [6]], rows=[0])
    for how in ({"temperature": 0.0}, {"group_size": 0}, {"max_completion_tokens": 0}):
        with pytest.raises(SamplingError, match=next(iter(how))):
            sampled(sampler, **how)
