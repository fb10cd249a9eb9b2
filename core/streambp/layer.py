"""A decoder layer as one autograd node that walks its tokens in chunks.

Forward, first chunk to last, without a graph: keep the layer's input and what the policy asks for.
Backward: make the keys and values of all chunks but the last again, then walk last to first. When
chunk i is reached every later chunk has been, so the gradient of its keys is complete, and

    grad([out_i, k_i, v_i], [h_i, params, k_<i, v_<i], [dout_i, dk_i, dv_i])

is the chunk's whole share (arXiv 2506.03077, section 3). States that the layer carries from chunk
to chunk are among the outputs and inputs too. No graph ever spans two chunks.

Legend: B rows, T tokens, C tokens of a chunk, D width.
"""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from core.streambp.atwork import at_work
from core.streambp.call import Autocast, LayerCall
from core.streambp.ledger import ledger_now
from core.streambp.policy import Policy
from core.streambp.source import Lookup, Whole
from core.streambp.walks import ForwardWalk, Kept, ReverseWalk


class StreamedLayer(torch.autograd.Function):
    """out_BTD of a layer; every parameter is an input, so hooks on them fire once per call."""

    @staticmethod
    def forward(
        ctx: Any, call: LayerCall, policy: Policy, lookup: Lookup | None, hidden_BTD: Tensor,
        *params: Tensor,
    ) -> Tensor:  # fmt: skip
        """Walk first chunk to last."""
        ctx.call, ctx.policy, ctx.ledger = call, policy, ledger_now()
        ctx.entered = [] if ctx.ledger is None else ctx.ledger.enter(params)
        ctx.autocast = Autocast.current(hidden_BTD.device.type)
        walk = ForwardWalk(call, policy, hidden_BTD, lookup or Whole(hidden_BTD))
        with ctx.autocast(), at_work(params):
            out_BTD = walk.run()
        kept = walk.kept
        ctx.bounds, ctx.random, ctx.has_keys = walk.bounds, kept.random, kept.has_keys
        tensors, ctx.shape = tree_flatten((kept.source, kept.keys, kept.attended, kept.states))
        ctx.count, ctx.fetched = len(tensors), None
        ctx.before = policy.queue.after(ctx)
        ctx.save_for_backward(*tensors, *params)
        return out_BTD

    @staticmethod
    def backward(ctx: Any, grad_BTD: Tensor) -> tuple[Any, ...]:
        """Walk last chunk to first, while the states of the layer before are on their way."""
        ctx.call.refuse_detached()
        params = ctx.saved_tensors[ctx.count :]
        needed = ctx.needs_input_grad[3:]
        wanted = [p for p, need in zip(params, needed[1:], strict=True) if need]
        kept = _brought_back(ctx)
        walk = ReverseWalk(
            ctx.call, ctx.bounds, kept, grad_BTD, wanted, deeper=needed[0], ledger=ctx.ledger
        )
        with ctx.autocast(), at_work(params):
            walk.run()
        grads = iter(walk.sums.totals())
        if ctx.ledger is not None:
            ctx.ledger.sent(ctx.entered)
        return None, None, None, walk.hidden_grad, *(next(grads) if n else None for n in needed[1:])


def _brought_back(ctx: Any) -> Kept:
    """Wait for what this layer kept, and send for what the layer before it did."""
    store = ctx.policy.store
    fetched = ctx.fetched or store.fetch(ctx.saved_tensors[: ctx.count])
    tensors, ctx.fetched = fetched(), None
    before = ctx.before() if store.ahead and ctx.before is not None else None
    if before is not None:
        # Where its graph has been freed already, by the step before, there is nothing to send for.
        with suppress(RuntimeError):
            before.fetched = store.fetch(before.saved_tensors[: before.count])
    source, keys, attended, states = tree_unflatten(tensors, ctx.shape)
    return Kept(source, keys, attended, states, ctx.random, has_keys=ctx.has_keys)
