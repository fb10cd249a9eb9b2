"""A decoder layer as one autograd node that walks its tokens in chunks.

Forward, first chunk to last, without a graph: keep the layer's input and nothing else. Backward:
recompute the keys and values of all chunks but the last, then walk last to first. When chunk i is
reached every later chunk has been, so the gradient of its keys is complete, and

    grad([out_i, k_i, v_i], [h_i, params, k_<i, v_<i], [dout_i, dk_i, dv_i])

is the chunk's whole share (arXiv 2506.03077, section 3). No graph ever spans two chunks.

Legend: B rows, T tokens, C tokens of a chunk, D width.
"""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from core.streambp.attention import ChunkView
from core.streambp.call import Autocast, LayerCall
from core.streambp.inner import GradientSums, shares_of
from core.streambp.keys import ChunkCache, HeldKeys, KeysCaught
from core.streambp.layout import chunks
from core.streambp.randomness import RandomState, changed, random_state, replayed


class StreamedLayer(torch.autograd.Function):
    """out_BTD of a layer; every parameter is an input, so hooks on them fire once per call."""

    @staticmethod
    def forward(
        ctx: Any, call: LayerCall, chunk_tokens: int, hidden_BTD: Tensor, *params: Tensor
    ) -> Tensor:
        """Walk first chunk to last; keep the input and the random states."""
        ctx.call, ctx.bounds = call, chunks(call.tokens, chunk_tokens)
        ctx.autocast = Autocast.current(hidden_BTD.device.type)
        with ctx.autocast():
            out_BTD, ctx.random = walk_forward(call, ctx.bounds, hidden_BTD)
        ctx.save_for_backward(hidden_BTD, *params)
        return out_BTD

    @staticmethod
    def backward(ctx: Any, grad_BTD: Tensor) -> tuple[Any, ...]:
        """Walk last chunk to first."""
        ctx.call.refuse_detached()
        hidden_BTD, *params = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        wanted = [p for p, need in zip(params, needed[1:], strict=True) if need]
        walk = ReverseWalk(ctx, hidden_BTD, grad_BTD, wanted, deeper=needed[0])
        with ctx.autocast():
            walk.recompute_keys()
            for index in reversed(range(len(ctx.bounds))):
                walk.chunk(index)
        grads = iter(walk.sums.totals())
        return None, None, walk.hidden_grad, *(next(grads) if n else None for n in needed[1:])


def walk_forward(
    call: LayerCall, bounds: list[tuple[int, int]], hidden_BTD: Tensor
) -> tuple[Tensor, list[RandomState | None]]:
    """Give the layer's output, and for each chunk that drew at random the state it drew from."""
    out_BTD: Tensor | None = None
    states: list[RandomState | None] = []
    held = HeldKeys(bounds[-1][0])
    for start, stop in bounds:
        before = random_state(hidden_BTD.device)
        cache = ChunkCache(start)
        view = ChunkView(call.rule, start, stop, held)
        out_BCD = call.run(hidden_BTD[:, start:stop], view, cache)
        if stop < call.tokens:
            held.write(start, *cache.caught())
        if out_BTD is None:
            out_BTD = out_BCD.new_empty(*hidden_BTD.shape[:2], *out_BCD.shape[2:])
        out_BTD[:, start:stop] = out_BCD
        states.append(before if changed(before, hidden_BTD.device) else None)
    assert out_BTD is not None, "a row has at least one token"
    return out_BTD, states


class ReverseWalk:
    """The backward pass of one layer: held keys, sums of parameter gradients, hidden gradient."""

    def __init__(
        self, ctx: Any, hidden_BTD: Tensor, grad_BTD: Tensor, wanted: list[Tensor], *, deeper: bool
    ) -> None:
        self.call: LayerCall = ctx.call
        self.bounds: list[tuple[int, int]] = ctx.bounds
        self.random: list[RandomState | None] = ctx.random
        self.hidden, self.grad, self.wanted = hidden_BTD, grad_BTD, wanted
        self.hidden_grad = torch.empty_like(hidden_BTD) if deeper else None
        self.held = HeldKeys(self.bounds[-1][0])
        self.sums = GradientSums(wanted)

    def recompute_keys(self) -> None:
        """Keys and values of all chunks but the last; each run ends where they are known."""
        for (start, stop), state in zip(self.bounds[:-1], self.random[:-1], strict=True):
            cache = ChunkCache(start, stop_after_update=True)
            view = ChunkView(self.call.rule, start, stop)
            with torch.no_grad(), replayed(state, self.hidden.device):
                with suppress(KeysCaught):
                    self.call.run(self.hidden[:, start:stop], view, cache)
                self.held.write(start, *cache.caught())

    def chunk(self, index: int) -> None:
        """Back-propagate through one chunk and send its shares on."""
        start, stop = self.bounds[index]
        view, cache = ChunkView(self.call.rule, start, stop, self.held), ChunkCache(start)
        earlier = view.with_leaves()
        deeper = self.hidden_grad is not None
        with torch.enable_grad(), replayed(self.random[index], self.hidden.device):
            hidden_BCD = self.hidden[:, start:stop].detach().requires_grad_(deeper)
            out_BCD = self.call.run(hidden_BCD, view, cache)
        outs, grads = self._outputs(start, stop, out_BCD, cache)
        inputs = [*([hidden_BCD] if deeper else []), *self.wanted, *earlier]
        shares = shares_of(outs, inputs, grads)
        if self.hidden_grad is not None:
            share = shares.pop(0)
            self.hidden_grad[:, start:stop] = 0 if share is None else share
        self.sums.add(shares[: len(self.wanted)])
        if earlier:
            self.held.add_grads(view.first, *shares[len(self.wanted) :])

    def _outputs(
        self, start: int, stop: int, out_BCD: Tensor, cache: ChunkCache
    ) -> tuple[list[Tensor], list[Tensor]]:
        pairs = [(out_BCD, self.grad[:, start:stop])]
        sent = self.held.grads(start, stop)
        if sent is not None:
            pairs += [(x, g.to(x.dtype)) for x, g in zip(cache.caught(), sent, strict=True)]
        pairs = [pair for pair in pairs if pair[0].requires_grad]
        return [out for out, _ in pairs], [grad for _, grad in pairs]
