"""States that are carried from token to token know no padding: prompts of one length go together."""

import pytest

from core.rollout import PolicySampler, Sampling
from core.rollout.batches import batches
from core.rollout.policy import resting
from core.rollout.trial import may_pad
from core.streambp import attach


@pytest.mark.parametrize("family", ["qwen3_next", "mamba"])
def test_a_model_with_states_answers_in_batches_what_it_answers_to_each_prompt(
    family, tiny, sampled
):
    model = tiny(family)
    with attach(model, chunk_tokens=4):
        with resting(model):
            assert not may_pad(model)
        want = sampled(PolicySampler(model, tokens_at_once=1))
        assert sampled(PolicySampler(model, tokens_at_once=10**6)) == want


def test_even_batches_hold_prompts_of_one_length_and_every_answer_once(prompts):
    lengths = [len(prompt) for prompt in prompts]
    sampling = Sampling(3, 6, frozenset())
    for even in (True, False):
        cut = list(batches(lengths, sampling, 4 * 13, even=even))
        slots = [slot for batch in cut for slot in batch]
        assert len(set(slots)) == len(slots) == 3 * len(prompts)
        for batch in cut:
            longest = max(lengths[slot.prompt] for slot in batch)
            assert len(batch) * (longest + 6) <= 4 * 13
        mixed = [len({lengths[slot.prompt] for slot in batch}) > 1 for batch in cut]
        assert any(mixed) != even
