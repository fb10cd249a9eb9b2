"""What is sampled is scored alike by the engine that learns from it."""

import pytest
import torch

from core.rollout import PolicySampler, policy
from core.streambp import Layout, answer_logps, attach


@pytest.fixture
def drawn(monkeypatch):
    """Log-probabilities of all tokens in the order of drawing."""
    logps, original = [], policy.draw

    def noted(logits_BV, u_B, temperature):
        token_B = original(logits_BV, u_B, temperature)
        logp_BV = (logits_BV.double() / temperature).log_softmax(-1)
        logps.extend(logp_BV.gather(1, token_B[:, None])[:, 0].tolist())
        return token_B

    monkeypatch.setattr(policy, "draw", noted)
    return logps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text"])
def test_the_engines_log_probabilities_are_those_that_were_drawn_by(
    family, dtype, tiny, sampled, drawn, prompts
):
    temperature = 0.7
    model = tiny(family).to(dtype).eval()  # gpt2 drops out
    with attach(model, chunk_tokens=4):
        groups = sampled(PolicySampler(model, tokens_at_once=200), temperature=temperature)
        scored = []
        for prompt, group in zip(prompts, groups, strict=True):
            answers = [answer.token_ids for answer in group]
            ids = torch.tensor([sum(answers, list(prompt))])
            layout = Layout.shared_prefix(len(prompt), list(map(len, answers)), ids.shape[1])
            marks = torch.ones_like(ids, dtype=torch.bool)
            marks[:, : len(prompt)] = False
            logp = answer_logps(
                model, ids, marks, layout, head_chunk_tokens=5, temperature=temperature
            )
            scored += logp[marks].tolist()
    assert sorted(scored) == pytest.approx(sorted(drawn), abs=1e-4)
