"""Temperature and entropy, against whole logits."""

import copy

import pytest
import torch
from torch import nn

from core.streambp import attach, token_logps
from core.streambp.errors import TemperatureError

HEADS = {
    "llama": {"tie_word_embeddings": True},
    "gemma2": {},
    "granite": {"tie_word_embeddings": False},
}


def whole(model, data, temperature):
    """Log-probabilities and entropies from logits of full size, one row at a time."""
    logps, entropies = [], []
    for ids, targets, real in zip(data.ids_BT, data.targets_BT, data.layout.real, strict=True):
        z = model(input_ids=ids[None, :real], use_cache=False).logits[0] / temperature
        full = nn.functional.pad(z.log_softmax(-1), (0, 0, 0, len(ids) - real))
        scored = targets != -100
        logps.append(full.gather(1, targets.where(scored, 0)[:, None])[:, 0] * scored)
        entropies.append(-(full.exp() * full).sum(-1) * scored)
    return torch.stack(logps), torch.stack(entropies)


@pytest.mark.parametrize("family", HEADS)
@pytest.mark.parametrize("head", [3, 64])
def test_entropy_and_temperature_equal_whole_logits_with_their_gradients(
    family, head, tiny, batch, assert_same
):
    model, data = tiny(family, **HEADS[family]).eval(), batch()
    runs = []
    for streamed in (False, True):
        ours = copy.deepcopy(model)
        if streamed:
            attach(ours, chunk_tokens=4)
            logp, entropy = token_logps(
                ours, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=head,
                temperature=0.7, with_entropy=True,
            )  # fmt: skip
        else:
            logp, entropy = whole(ours, data, 0.7)
        (logp * data.weight_BT + entropy.square() * data.weight_BT.flip(0)).sum().backward()
        grads = {name: p.grad for name, p in ours.named_parameters()}
        runs.append((torch.stack([logp, entropy]).detach(), grads))
    assert_same(runs[1], runs[0], 5e-6)


@pytest.mark.parametrize("temperature", [0, -1.0, float("inf"), float("nan")])
def test_a_temperature_that_divides_nothing_is_refused(temperature, tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4), pytest.raises(TemperatureError, match="above 0"):
        token_logps(
            model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8,
            temperature=temperature,
        )  # fmt: skip
