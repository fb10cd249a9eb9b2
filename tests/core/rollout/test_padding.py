"""A row that is decoded among others is the row decoded alone: positions count real tokens."""

import pytest
import torch

from core.rollout.decoding import Decoding
from core.rollout.errors import UndecodableError
from core.rollout.policy import PolicySampler, resting
from core.rollout.trial import may_pad

FAMILIES = ["llama", "gpt2", "gpt_neox", "opt", "qwen3", "gemma3_text", "mistral"]
PROMPTS = [[5, 6, 7], [9], [3, 4, 5, 6, 7, 8, 9]]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def alone(model, row):
    return model(input_ids=torch.tensor([row]), use_cache=False).logits[0, -1].log_softmax(-1)


def assert_rows(model, decoding, rows, tolerance):
    for logits, row in zip(decoding.logits_BV, rows, strict=True):
        want = alone(model, row)
        torch.testing.assert_close(logits.log_softmax(-1), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("family", FAMILIES)
def test_left_padded_rows_have_the_log_probabilities_of_unpadded_ones(family, dtype, tiny):
    model, tolerance = tiny(family).to(dtype), TOLERANCE[dtype]
    with resting(model):
        decoding, rows = Decoding(model, PROMPTS), PROMPTS
        assert_rows(model, decoding, rows, tolerance)
        for step in range(4):  # through a sliding window of 3
            decoding.step(torch.tensor([10 + step + i for i in range(len(rows))]))
            rows = [[*row, 10 + step + i] for i, row in enumerate(rows)]
            assert_rows(model, decoding, rows, tolerance)


def test_a_prompt_is_shared_and_a_row_left_out_without_a_trace_on_the_others(tiny):
    model = tiny("gemma3_text")
    with resting(model):
        decoding = Decoding(model, PROMPTS)
        decoding.take([2, 0, 2])
        decoding.step(torch.tensor([10, 11, 12]))
        decoding.take([2, 1])
        decoding.step(torch.tensor([20, 21]))
        assert_rows(model, decoding, [[*PROMPTS[2], 12, 20], [*PROMPTS[0], 11, 21]], 1e-10)


def test_a_model_whose_positions_count_padding_is_not_padded(tiny):
    class Counting(type(tiny("gpt2"))):
        def forward(self, input_ids=None, attention_mask=None, cache=None, use_cache=None):
            start = cache.get_seq_length() if cache is not None else 0
            places = torch.arange(start, start + input_ids.shape[1])[None]
            return super().forward(
                input_ids=input_ids, attention_mask=attention_mask, cache=cache,
                use_cache=use_cache, position_ids=places,
            )  # fmt: skip

    model = tiny("gpt2")
    with resting(model):
        assert may_pad(model)
        model.__class__ = Counting
        assert not may_pad(model)


def test_a_family_whose_padding_is_no_number_is_not_padded_and_answers_all_the_same(tiny, sampled):
    model = tiny("bloom")  # in float64 its bias and its mask add up to -inf
    with resting(model):
        assert not may_pad(model)
    want = sampled(PolicySampler(model, tokens_at_once=1))
    assert sampled(PolicySampler(model, tokens_at_once=1000)) == want


def test_a_model_that_keeps_no_cache_is_refused(tiny):
    class Forgetful(type(tiny("llama"))):
        def forward(self, input_ids=None, use_cache=None, cache=None):  # noqa: ARG002
            return super().forward(input_ids=input_ids, use_cache=False)

    model = tiny("llama")
    model.__class__ = Forgetful
    with pytest.raises(UndecodableError, match=r"does not decode|differs from whole rows"):
        PolicySampler(model, tokens_at_once=10)
