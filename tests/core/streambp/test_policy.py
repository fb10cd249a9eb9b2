"""Whatever is kept and wherever it lies, gradients are the same; what is kept is what was asked."""

import itertools

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from core.streambp import attach, token_logps, walks
from core.streambp.errors import PolicyError
from core.streambp.kernels import CpuFlash
from core.streambp.layout import chunks
from core.streambp.visibility import describe_mask

KEEPS = ("hidden", "hidden+attention", "hidden+kv")


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("store", ["device", "cpu", "disk"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "mistral", "qwen3_next"])
def test_gradients_are_the_same_under_every_policy(
    keep, store, family, tiny, batch, streamed_run, assert_same, tmp_path
):
    model, data = tiny(family), batch()
    folder = tmp_path if store == "disk" else None
    policy = {"keep": keep, "store": store, "folder": folder}
    got = streamed_run(model, data, 4, policy=policy)
    assert_same(got, streamed_run(model, data, 4), 1e-12)
    assert list(tmp_path.iterdir()) == []


def kept_bytes(model, data, **policy):
    """Bytes that the streamed layers hand to autograd besides parameters."""
    known = {p.data_ptr() for p in model.parameters()}
    layers, sizes = model.model.layers, []

    def pack(x):
        if x.data_ptr() not in known:
            sizes.append(x.numel() * x.element_size())
        return x

    with attach(model, chunk_tokens=4, **policy):
        hidden = torch.randn(*data.ids_BT.shape, 32, dtype=torch.float64, requires_grad=True)
        rope = model.model.rotary_emb(hidden, data.layout.position_ids())
        with saved_tensors_hooks(pack, lambda x: x):
            rows, tokens = data.ids_BT.shape
            rule = describe_mask(batch_size=rows, q_length=tokens, kv_length=tokens)
            layers[0](hidden, attention_mask=rule, position_embeddings=rope)
    return sum(sizes)


@pytest.mark.parametrize(("tokens", "rows"), [(13, 2), (16, 1)])
def test_what_is_kept_is_what_the_policy_says(tokens, rows, tiny, batch):
    model, data = tiny("llama"), batch(tokens, (tokens,) * rows)
    hidden = rows * tokens * 32 * 8
    attention = rows * 4 * tokens * (8 + 1) * 8  # four heads of eight, and a log-sum-exp each
    last, _ = chunks(tokens, 4, least=2)[-1]
    keys = 2 * rows * 2 * last * 8 * 8  # of all chunks but the last
    assert kept_bytes(model, data) == hidden
    assert kept_bytes(model, data, keep="hidden+attention") == hidden + attention
    assert kept_bytes(model, data, keep="hidden+kv") == hidden + keys


def test_kept_attention_and_kept_keys_spare_their_computation(tiny, batch, monkeypatch):
    data, counts = batch(16, (16,)), {}
    forward, keys = CpuFlash.forward, walks.ReverseWalk._recompute_keys
    for keep in KEEPS:
        made = counts[keep] = {"attention": 0, "keys": 0}

        def attend(*args, made=made, **kwargs):
            made["attention"] += 1
            return forward(*args, **kwargs)

        def again(*args, made=made):
            made["keys"] += 1
            return keys(*args)

        monkeypatch.setattr(CpuFlash, "forward", attend)
        monkeypatch.setattr(walks.ReverseWalk, "_recompute_keys", again)
        model = tiny("llama")
        with attach(model, chunk_tokens=4, keep=keep):
            made.update(attention=0, keys=0)
            token_logps(
                model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8
            ).sum().backward()
    assert counts["hidden"]["attention"] == 2 * counts["hidden+attention"]["attention"]
    assert counts["hidden+kv"]["keys"] == 0
    assert counts["hidden"]["keys"] == counts["hidden+attention"]["keys"] == 2 * 3


def test_on_a_cpu_the_host_is_the_device_and_the_attachment_says_so(tiny):
    with attach(tiny("llama"), chunk_tokens=4, store="cpu") as attached:
        assert "store = device" in attached.remark
    with attach(tiny("llama"), chunk_tokens=4) as attached:
        assert attached.remark == ""


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"keep": "everything"}, "keep"),
        ({"store": "tape"}, "store"),
        ({"store": "disk"}, "folder"),
        ({"store": "disk", "folder": "/no/such/folder"}, "folder"),
        ({"folder": "."}, "folder"),
    ],
)
def test_a_policy_in_other_words_is_refused_by_field(policy, field, tiny):
    with pytest.raises(PolicyError) as caught:
        attach(tiny("llama"), chunk_tokens=4, **policy)
    assert caught.value.field == field


def test_a_graph_can_be_walked_twice_from_disk(tiny, batch, tmp_path):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4, store="disk", folder=tmp_path):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8)
        runs = []
        for retain in (True, False):
            model.zero_grad()
            logp.sum().backward(retain_graph=retain)
            runs.append([p.grad.clone() for p in model.parameters()])
    assert all(itertools.starmap(torch.equal, zip(*runs, strict=True)))
