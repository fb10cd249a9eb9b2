"""Somebody's own training loop does with a streamed model what it does with a stock one."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from core.streambp import attach, token_logps

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.01, max_iter=3),  # many passes a step
}


def loss_of(model, data):
    """Cross-entropy from the model's own logits: the loop knows nothing of streaming."""
    logits = model(input_ids=data.ids_BT, use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), data.targets_BT.flatten())


def losses(model, data, optimizer, steps=4):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, data)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(steps)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_takes_the_same_steps(name, tiny, batch):
    model, data = tiny("gpt2"), batch()
    other = copy.deepcopy(model)
    want = losses(other, data, OPTIMIZERS[name](other.parameters()))
    with attach(model, chunk_tokens=4):
        got = losses(model, data, OPTIMIZERS[name](model.parameters()))
    assert want[-1] < want[0]
    # Some optimizers divide a gradient by itself, also where it is nothing but rounding.
    assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "bloom"])  # streamed, and checkpointed whole
def test_a_step_may_be_taken_as_soon_as_a_weight_has_its_gradient(family, tiny, batch):
    model, data = tiny(family), batch(13, (13, 13))
    other = copy.deepcopy(model)
    loss_of(other, data).backward()
    fired = []

    @torch.no_grad()
    def step(p):
        fired.append(p)
        p.sub_(p.grad, alpha=0.1)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    with attach(model, chunk_tokens=4):
        loss_of(model, data).backward()
    assert len(fired) == len(set(fired)) == len(list(model.parameters()))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q - 0.1 * q.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("frozen", [False, True])
def test_embeddings_that_the_loop_makes_itself_get_their_gradient(frozen, tiny, batch):
    grads = []
    for streamed in (False, True):
        model, data = tiny("gpt2", tie_word_embeddings=False), batch(13, (13, 13))
        embedding = model.get_input_embeddings().requires_grad_(not frozen)
        prompt = torch.full((2, 4, 32), 0.5, dtype=torch.float64, requires_grad=True)
        if streamed:
            attach(model, chunk_tokens=4)
        made = torch.cat([prompt, embedding(data.ids_BT)], dim=1)
        out = model(inputs_embeds=made, use_cache=False).logits[:, 4:]
        cross_entropy(out.flatten(0, 1), data.targets_BT.flatten()).backward()
        assert (embedding.weight.grad is None) == frozen
        grads.append([prompt.grad, *([] if frozen else [embedding.weight.grad])])
    for got, want in zip(*reversed(grads), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_gradients_of_a_few_weights_can_be_asked_for(tiny, batch):
    model, data = tiny("gpt2"), batch()
    few = [model.transformer.h[0].attn.c_attn.weight, model.transformer.wte.weight]
    with attach(model, chunk_tokens=4):
        asked = torch.autograd.grad(loss_of(model, data), few)
        loss_of(model, data).backward(inputs=few)
        alone = [p.grad.clone() for p in few]
        assert sum(p.grad is not None for p in model.parameters()) == len(few)
        model.zero_grad()
        loss_of(model, data).backward()
    for one, two, whole in zip(asked, alone, few, strict=True):
        assert torch.equal(one, whole.grad)
        assert torch.equal(two, whole.grad)


@pytest.mark.parametrize("keep", ["hidden", "hidden+attention", "hidden+kv"])
def test_a_second_backward_is_the_first_again_or_an_error(keep, tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4, keep=keep):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        loss = (logp * data.weight_BT).sum()
        loss.backward(retain_graph=True)
        once = [p.grad.clone() for p in model.parameters()]
        loss.backward()
        for p, grad in zip(model.parameters(), once, strict=True):
            torch.testing.assert_close(p.grad, 2 * grad, rtol=1e-12, atol=1e-12)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
