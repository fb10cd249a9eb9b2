"""A prompt computed once for all its answers gives what a prompt for each of them gives."""

from dataclasses import replace

import pytest
import torch

from core.streambp import Layout, Shared, answer_logps, attach, plain, token_logps
from core.streambp.errors import LayoutError, TargetError

TREES = {
    "one row": Layout.shared_prefix(6, [4, 1, 3], 16),
    "two trees in a row": Layout.packed([[Shared(3, (2, 4)), 2, Shared(1, (3,))]], 17),
    "rows that differ": Layout.packed([[Shared(5, (3, 3))], [Shared(2, (1, 4)), 4]], 13),
    "rows that agree": Layout.packed([[Shared(5, (3, 3))]] * 2, 11),
}


def batch_of(layout):
    generator = torch.Generator().manual_seed(1)
    shape = (len(layout.segments), layout.tokens)
    ids = torch.randint(3, 61, shape, generator=generator)
    weight = torch.randn(shape, generator=generator, dtype=torch.float64)
    answered = [
        [s.prefix != () and t < real for s in segments for t in range(s.start, s.stop)]
        for segments, real in zip(layout.segments, layout.real, strict=True)
    ]
    return ids, torch.tensor(answered), weight


def run(tiny, family, layout, chunk, unshared=None, **scoring):
    """Log-probabilities of the answers and all gradients; `unshared` scores without a tree."""
    model, (ids, answered, weight) = tiny(family), batch_of(layout)
    if unshared is None:
        attach(model, chunk_tokens=chunk)
        logp = answer_logps(model, ids, answered, layout, head_chunk_tokens=5, **scoring)
    else:
        logp = unshared(model, ids, answered, layout)
    (logp * weight).sum().backward()
    return logp.detach(), {name: p.grad for name, p in model.named_parameters()}


def rows_of_their_own(model, ids, answered, layout):
    """The same answers, streamed as ordinary rows: each with a copy of its prompt."""
    attach(model, chunk_tokens=4)
    table = torch.zeros(ids.shape, dtype=torch.float64)
    for row, segments in enumerate(layout.segments):
        for segment in segments:
            own = torch.arange(segment.start, min(segment.stop, layout.real[row]))
            seen = [torch.arange(span.start, span.stop) for span in segment.prefix]
            index = torch.cat([*seen, own])
            targets = torch.full((1, len(index)), -100)
            targets[0, :-1] = ids[row, index[1:]].where(answered[row, index[1:]], -100)
            alone = Layout.causal([len(index)], len(index))
            logp = token_logps(model, ids[row, index][None], targets, alone, head_chunk_tokens=5)
            place = (torch.full_like(index[1:], row), index[1:])
            table = table.index_put(place, logp[0, :-1], accumulate=True)
    return table


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize(("family", "tolerance"), [("gpt2", 1e-10), ("llama", 1e-6)])  # it casts
def test_shared_equals_unshared(tree, chunk, family, tolerance, tiny, assert_same):
    got = run(tiny, family, TREES[tree], chunk)
    assert_same(got, run(tiny, family, TREES[tree], chunk, rows_of_their_own), tolerance)


@pytest.mark.parametrize("family", ["qwen3", "gpt2", "mistral", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("chunk", [3, 7])
def test_every_kind_of_attention_equals_plain_autograd(family, chunk, tiny, assert_same):
    for layout in TREES.values():
        want = run(tiny, family, layout, chunk, plain.answer_logps)
        assert_same(run(tiny, family, layout, chunk), want, 5e-6)


def test_an_answer_does_not_see_another(tiny):
    layout = TREES["one row"]
    ids, answered, _ = batch_of(layout)
    changed = ids.clone()
    changed[0, 6:10] = 5
    with attach(tiny("llama"), chunk_tokens=4) as attached:
        one, other = (
            answer_logps(attached.model, each, answered, layout, head_chunk_tokens=64)
            for each in (ids, changed)
        )
    assert torch.equal(one[0, 10:], other[0, 10:])
    assert not torch.equal(one[0, 6:10], other[0, 6:10])


def test_without_a_tree_answers_are_shifted_targets(tiny, batch):
    data = replace(batch(), layout=Layout.packed([[5, 8], [9]], 13))
    scored = data.layout.predictors() >= 0
    scored[1, 9:] = False
    targets = torch.full_like(data.ids_BT, -100)
    targets[:, :-1] = data.ids_BT[:, 1:].where(scored[:, 1:], -100)
    with attach(tiny("llama"), chunk_tokens=4) as attached:
        model = attached.model
        want = token_logps(model, data.ids_BT, targets, data.layout, head_chunk_tokens=64)
        got = answer_logps(model, data.ids_BT, scored, data.layout, head_chunk_tokens=64)
    assert torch.equal(got[:, 1:], want[:, :-1])


def test_tokens_that_nothing_predicts_and_prompts_without_answers_are_refused(tiny):
    layout = TREES["one row"]
    ids, answered, _ = batch_of(layout)
    first = answered.clone()
    first[0, 0] = True
    with attach(tiny("llama"), chunk_tokens=4) as attached:
        for wrong, match in ((first, "nothing comes before"), (ids, "booleans")):
            with pytest.raises(TargetError, match=match):
                answer_logps(attached.model, ids, wrong, layout, head_chunk_tokens=5)
    with pytest.raises(LayoutError, match="an answer or more"):
        Layout.shared_prefix(4, [], 8)
    with pytest.raises(LayoutError, match="only 8 tokens"):
        Layout.shared_prefix(4, [3, 2], 8)
