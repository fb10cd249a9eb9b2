"""Objectives take log-probabilities at the temperature of sampling; the engine makes them so."""

import pytest
import torch
import transformers

from core.objectives import grpo
from core.streambp import Layout, answer_logps, attach


@pytest.fixture
def two_words():
    """A model whose logits are [2, 0], and as good as nothing for other words; its layers add nothing."""
    config = transformers.LlamaConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, vocab_size=8, tie_word_embeddings=False,
        pad_token_id=0, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).double()
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.fill_(1e3)  # beside which the norm's epsilon is nothing
        model.lm_head.weight.copy_(torch.tensor([0.25, 0.0, *[-1e3] * 6])[:, None].expand(8, 8))
    return model


def test_policy_old_and_reference_are_of_one_temperature(two_words, grpo_spec):
    """Training case 13: logits [2, 0] at temperature 0.5."""
    torch.set_num_threads(1)
    ids, scored = torch.tensor([[1, 0]]), torch.tensor([[False, True]])
    with attach(two_words, chunk_tokens=2):
        logp, old, reference = (
            answer_logps(
                two_words, ids, scored, Layout.causal([2], 2), head_chunk_tokens=2, temperature=0.5
            )
            for _ in range(3)
        )
    for table in (logp, old, reference):
        assert table[0].tolist() == pytest.approx([0.0, -0.0181499], abs=1e-7)
    loss = grpo(
        logp, old, scored.long() - 1, torch.ones(1), grpo_spec(kl_weight=1.0), normaliser=1,
        reference_BT=reference,
    )  # fmt: skip
    assert (loss.value.item(), loss.sums["kl"], loss.sums["clipped"]) == (-1.0, 0.0, 0.0)
