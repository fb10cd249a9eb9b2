"""APOLLO on a model with int8 weights: it learns, repeats, and resumes bit for bit."""

import io

import pytest
import torch
import transformers

from core.optim import APOLLO_MINI, Apollo, parameter_groups
from core.optim.int8 import Int8Weight
from core.optim.int8_model import exact_state, load_exact_state, quantise_model


def llama(dtype=torch.float32):
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=40, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(dtype)
    quantise_model(model, group=16)
    return model


def mini(model, **options):
    groups = parameter_groups(model, embeddings="apollo")
    return Apollo(groups, **{"lr": 1e-2, "update_proj_gap": 7, **APOLLO_MINI, **options})


def losses(model, optimizer, first, last):
    seen = []
    for step in range(first, last):
        start = torch.randint(40, (8, 1), generator=torch.Generator().manual_seed(step))
        ids = (start + torch.arange(12)) % 40
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def state_of(model):
    return {name: value.clone() for name, value in exact_state(model).items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_learns(dtype):
    model = llama(dtype)
    seen = losses(model, mini(model), 0, 60)
    assert sum(seen[-5:]) < 0.5 * sum(seen[:5])
    assert all(isinstance(p, Int8Weight) == (p.ndim == 2) for p in model.parameters())


def test_two_runs_are_bit_equal_and_another_seed_is_not():
    ends = []
    for seed in (0, 0, 1):
        model = llama()
        ends.append((losses(model, mini(model, seed=seed), 0, 5), state_of(model)))
    assert ends[0][0] == ends[1][0]
    assert same(ends[0][1], ends[1][1])
    assert not same(ends[0][1], ends[2][1])


def test_a_run_goes_on_from_its_saved_state_bit_for_bit():
    whole = llama()
    want = losses(whole, mini(whole), 0, 12)
    stopped = llama()
    optimizer = mini(stopped)
    got = losses(stopped, optimizer, 0, 6)
    file = io.BytesIO()
    torch.save({"weights": exact_state(stopped), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = llama()
    optimizer = mini(resumed)
    load_exact_state(resumed, saved["weights"])
    optimizer.load_state_dict(saved["optimizer"])
    got += losses(resumed, optimizer, 6, 12)
    assert got == want
    assert same(exact_state(resumed), exact_state(whole))


def test_state_is_float32_and_never_as_large_as_an_int8_matrix():
    model = llama(torch.bfloat16)
    optimizer = mini(model)
    losses(model, optimizer, 0, 1)
    for param, state in optimizer.state.items():
        tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
        assert {value.dtype for value in tensors} == {torch.float32}
        if isinstance(param, Int8Weight):
            assert {type(value) for value in tensors} == {torch.Tensor}
            assert max(value.numel() for value in tensors) <= max(param.shape)
