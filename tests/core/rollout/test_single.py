"""An answer drawn token by token for a reader is the policy's, and its tail can be cut off."""

import pytest
import torch

from core.rollout import PolicySampler, Sampling, Stream
from core.rollout.single import Reading, nucleus, tokens_of

PROMPT = [5, 9, 3]
STREAM = Stream(seed=7, step=0, purpose="chat")


def reading(temperature=1.0, top_p=1.0, max_tokens=12, stops=()):
    return Reading(temperature, top_p, max_tokens, frozenset(stops))


@pytest.fixture
def model(tiny):
    return tiny("llama").eval()


def test_from_the_whole_distribution_it_is_the_sampler_s_answer(model):
    sampling = Sampling(group_size=1, max_completion_tokens=12, stop_ids=frozenset())
    sampler = PolicySampler(model, tokens_at_once=64)
    ((answer,),) = sampler.sample([PROMPT], rows=[0], stream=STREAM, sampling=sampling)
    assert list(tokens_of(model, PROMPT, STREAM, reading())) == answer.token_ids


def test_at_temperature_zero_each_token_is_the_likeliest(model):
    ids = list(PROMPT)
    for token in tokens_of(model, PROMPT, STREAM, reading(temperature=0)):
        with torch.no_grad():
            assert token == int(model(torch.tensor([ids])).logits[0, -1].argmax())
        ids.append(token)
    assert len(ids) == len(PROMPT) + 12


def test_a_nucleus_that_holds_one_token_leaves_no_choice(model):
    narrow = list(tokens_of(model, PROMPT, STREAM, reading(top_p=1e-9)))
    assert narrow == list(tokens_of(model, PROMPT, STREAM, reading(temperature=0)))


def test_it_ends_with_a_stop_token_or_at_the_limit(model):
    whole = list(tokens_of(model, PROMPT, STREAM, reading()))
    first = whole.index(whole[4])
    ended = list(tokens_of(model, PROMPT, STREAM, reading(stops=[whole[4]])))
    assert ended == whole[: first + 1]
    assert len(list(tokens_of(model, PROMPT, STREAM, reading(max_tokens=3)))) == 3


def test_the_nucleus_is_the_fewest_tokens_that_hold_as_much():
    logits_BV = torch.tensor([[0.2, 0.5, 0.3]]).log()
    kept = {p: nucleus(logits_BV, 1.0, p).isfinite().tolist()[0] for p in (0.4, 0.5, 0.6, 0.81)}
    assert kept == {
        0.4: [False, True, False],
        0.5: [False, True, False],
        0.6: [False, True, True],
        0.81: [True, True, True],
    }
