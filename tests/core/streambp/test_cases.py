"""What went wrong elsewhere: inputs from public reports, with the values that are right."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

from core.streambp import Layout, attach, token_logps

KEEPS = ("hidden", "hidden+attention", "hidden+kv")


def scores(model, data, **words):
    return token_logps(
        model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4, **words
    )


def test_logits_of_2_and_0_at_temperature_one_half_give_minus_0_0181499(tiny, batch):
    """trl#3029: sampled at one temperature, scored at another."""
    model, data = tiny("gpt2", tie_word_embeddings=False), batch(5, (5,), masked=0)
    model.lm_head = nn.Linear(32, 2, dtype=torch.float64)
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.bias.copy_(torch.tensor([2.0, 0.0]))
    data = replace(data, targets_BT=torch.zeros_like(data.targets_BT))
    with attach(model, chunk_tokens=2):
        logp, entropy = scores(model, data, temperature=0.5, with_entropy=True)
    assert logp.tolist() == [pytest.approx([-0.0181499] * 5, abs=1e-7)]
    odds = math.exp(-4)
    sure = 1 / (1 + odds)
    expected = -sure * math.log(sure) - (1 - sure) * math.log(1 - sure)
    assert entropy.tolist() == [pytest.approx([expected] * 5)]


@pytest.mark.parametrize("keep", KEEPS)
def test_policy_and_old_policy_of_equal_weights_have_a_ratio_of_exactly_1(keep, tiny, batch):
    """trl#4159: the same weights in another pass, with and without gradient."""
    model, data = tiny("llama").float(), batch()
    with attach(model, chunk_tokens=4, keep=keep):
        with torch.no_grad():
            old = scores(model, data, temperature=0.7)
        now = scores(model, data, temperature=0.7)
    assert torch.equal((now - old).exp(), torch.ones_like(old))


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("family", ["llama", "gpt2", "mistral", "gemma2"])
def test_the_loss_of_one_document_sends_no_gradient_into_another(family, keep, tiny, batch):
    """trl#805: positions that begin anew do not keep documents apart."""
    model, data = tiny(family, tie_word_embeddings=False), batch(13, (13,), masked=0)
    ids = torch.tensor([[*range(3, 8), *range(20, 28)]])  # no token stands in both documents
    data = replace(data, ids_BT=ids, layout=Layout.packed([[5, 8]], 13))
    with attach(model, chunk_tokens=4, keep=keep):
        for part, other in ((slice(0, 5), slice(5, 13)), (slice(5, 13), slice(0, 5))):
            model.zero_grad()
            scores(model, data)[0, part].sum().backward()
            grads = model.get_input_embeddings().weight.grad
            assert not grads[ids[0, other]].any()
            assert (grads[ids[0, part]].norm(dim=1) > 0)[:-1].all()


def test_a_window_of_0_is_none(tiny, batch):
    """LlamaFactory#7063."""
    data = batch()
    with attach(tiny("mistral", sliding_window=None), chunk_tokens=4) as attached:
        want = scores(attached.model, data)
    with attach(tiny("mistral", sliding_window=0), chunk_tokens=4) as attached:
        assert torch.equal(scores(attached.model, data), want)


@pytest.mark.parametrize("tied", [False, True])
def test_a_step_taken_while_streamed_is_what_is_saved(tied, tiny, batch, tmp_path):
    """LlamaFactory#10560, StreamBP 3b56c16: head and embedding are one weight before and after."""
    model, data = tiny("qwen2", tie_word_embeddings=tied), batch()
    before = copy.deepcopy(model.state_dict())
    with attach(model, chunk_tokens=4):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        (-scores(model, data)).sum().backward()
        optimizer.step()
        model.save_pretrained(tmp_path)
    again, told = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, dtype=torch.float64
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
        assert not torch.equal(before[name], value)
    assert (again.lm_head.weight is again.model.embed_tokens.weight) == tied
    ids = data.ids_BT
    assert torch.equal(again.eval()(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
