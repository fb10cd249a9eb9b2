"""Nothing is shared between models, threads and calls."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

from core.streambp import Layout, attach, token_logps


def test_two_models_in_two_threads_do_not_disturb_each_other(
    tiny, batch, streamed_run, assert_same
):
    packed = replace(batch(), layout=Layout.packed([[5, 1, 7], [6, 3]], 13))
    jobs = [
        (tiny("llama"), batch(), 3, 5, {"keep": "hidden+attention"}),
        (tiny("mistral"), packed, 5, 4, {"keep": "hidden+kv"}),
    ]
    want = [streamed_run(*job) for job in jobs]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            runs = [threads.submit(streamed_run, *job) for job in jobs]
            for got, expected in zip(runs, want, strict=True):
                assert_same(got.result(), expected, 1e-12)


def test_two_forwards_before_two_backwards(tiny, batch, streamed_run, assert_same):
    model, data = tiny("llama"), batch()
    packed = replace(data, layout=Layout.packed([[5, 1, 7], [6, 3]], 13))
    want = [streamed_run(model, each, 4)[1] for each in (data, packed)]
    with attach(model, chunk_tokens=4):
        losses = [
            (
                token_logps(model, each.ids_BT, each.targets_BT, each.layout, head_chunk_tokens=5)
                * each.weight_BT
            ).sum()
            for each in (data, packed)
        ]
        for loss in losses:
            loss.backward()
    got = {name: p.grad for name, p in model.named_parameters()}
    both = {name: want[0][name] + want[1][name] for name in want[0]}
    assert_same((losses[0].detach(), got), (losses[0].detach(), both), 1e-10)


def test_hooks_on_parameters_see_the_whole_gradient_once(tiny, batch):
    model, data, fired = tiny("llama", tie_word_embeddings=True), batch(), []
    halved = [model.model.layers[0].self_attn.k_proj.weight, model.lm_head.weight]
    with attach(model, chunk_tokens=2):
        runs = []
        for hooked in (False, True):
            if hooked:
                for weight in halved:
                    weight.register_hook(lambda grad: fired.append(1) or grad / 2)
            model.zero_grad()
            logp = token_logps(
                model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4
            )
            logp.sum().backward()
            runs.append([weight.grad.clone() for weight in halved])
    assert fired == [1, 1]
    for whole, half in zip(*runs, strict=True):
        torch.testing.assert_close(half, whole / 2)
