"""The two walks over the chunks of one layer: first to last, and last to first.

Legend: B rows, T tokens, C tokens of a chunk, D width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor

from core.streambp.call import LayerCall
from core.streambp.carried import States
from core.streambp.errors import LayerCallError
from core.streambp.inner import GradientSums
from core.streambp.keys import ChunkCache, HeldKeys, KeysCaught, Place
from core.streambp.layout import chunks
from core.streambp.ledger import Ledger, keeping
from core.streambp.policy import Policy
from core.streambp.randomness import RandomState, changed, random_state, replayed
from core.streambp.source import Source, Whole
from core.streambp.view import Attended, Tape


@dataclass(slots=True)
class Kept:
    """What lies between the walks. Lists have an entry for each chunk, unless it says otherwise."""

    source: Source
    keys: tuple[Tensor, Tensor] | tuple[()] = ()  # keys and values, where the policy keeps them
    # One for each time that the layer attends, of the whole row.
    attended: list[Attended] = field(default_factory=list)
    states: list[States] = field(default_factory=list)  # as they came in
    random: list[RandomState | None] = field(default_factory=list)  # where anything was drawn
    has_keys: bool = False


class ForwardWalk:
    """Computes a layer without a graph."""

    def __init__(self, call: LayerCall, policy: Policy, hidden_BTD: Tensor, source: Source) -> None:
        self.call, self.policy, self.hidden = call, policy, hidden_BTD
        # Of a single token many a family thinks that it is decoding, and writes over its states.
        self.bounds = chunks(call.tokens, policy.chunk_tokens, least=2)
        self.kept = Kept(source)
        self._held = HeldKeys(self.bounds[-1][0])
        self._states: States = {}

    def run(self) -> Tensor:
        """Give out_BTD; `kept` is complete then."""
        out_BTD: Tensor | None = None
        for start, stop in self.bounds:
            out_BCD = self._chunk(start, stop)
            if out_BTD is None:
                out_BTD = out_BCD.new_empty(*self.hidden.shape[:2], *out_BCD.shape[2:])
            out_BTD[:, start:stop] = out_BCD
        assert out_BTD is not None, "a row has at least one token"
        pair, store = self._held.pair, self.policy.store
        self.kept.has_keys = pair is not None
        if pair is not None and self.policy.keep == "hidden+kv":
            self.kept.keys = (store.put(pair[0]), store.put(pair[1]))
        if isinstance(self.kept.source, Whole):
            self.kept.source = Whole(store.put(self.hidden))
        self.kept.attended = [(store.put(out), store.put(lse)) for out, lse in self.kept.attended]
        return out_BTD

    def _chunk(self, start: int, stop: int) -> Tensor:
        device, store = self.hidden.device, self.policy.store
        before, cache = random_state(device), ChunkCache(start, self._states)
        tape = Tape() if self.policy.keep == "hidden+attention" else None
        view = self.call.view((start, stop), self._held, tape)
        out_BCD = self.call.run(self.hidden[:, start:stop], (start, stop), view, cache)
        if cache.pair is not None and stop < self.call.tokens:
            self._held.write(start, *cache.pair)
        if tape is not None:
            self._keep_attended(start, stop, tape.made)
        self.kept.states.append({key: store.put(x) for key, x in self._states.items()})
        self.kept.random.append(before if changed(before, device) else None)
        self.call.carries |= bool(cache.outgoing)
        # A clone, for a state may be a view of something much longer.
        self._states = {key: x.clone() for key, x in cache.outgoing.items()}
        return out_BCD

    def _keep_attended(self, start: int, stop: int, made: list[Attended]) -> None:
        """Copy into one table for the whole row: many small tensors would scatter the heap."""
        tables, tokens = self.kept.attended, self.call.tokens
        if start == 0:
            for out, lse in made:
                rows, heads, _, width = out.shape
                room = out.new_empty(rows, tokens, heads, width), lse.new_empty(rows, heads, tokens)
                tables.append(room)
        if len(made) != len(tables):
            raise LayerCallError("layer", len(made), "it does not attend as often in every chunk")
        for (out_BTHK, lse_BHT), (out, lse) in zip(tables, made, strict=True):
            out_BTHK[:, start:stop] = out.transpose(1, 2)
            lse_BHT[:, :, start:stop] = lse


class ReverseWalk:
    """The backward pass of one layer: held keys, sums of parameter gradients, hidden gradient."""

    def __init__(
        self,
        call: LayerCall,
        bounds: list[tuple[int, int]],
        kept: Kept,
        grad_BTD: Tensor,
        wanted: list[Tensor],
        *,
        deeper: bool,
        ledger: Ledger | None,
    ) -> None:
        self.call, self.bounds, self.kept, self.grad = call, bounds, kept, grad_BTD
        self.hidden_grad = kept.source.new_empty() if deeper else None
        self.sums, self._ledger = GradientSums(wanted, ledger), ledger
        self._held = HeldKeys(bounds[-1][0], kept.keys or None)
        self._state_grads: States = {}

    def run(self) -> None:
        """Walk; `hidden_grad` and `sums` are complete then."""
        if self.kept.has_keys and not self.kept.keys:
            for index in range(len(self.bounds) - 1):
                self._recompute_keys(index)
        for index in reversed(range(len(self.bounds))):
            self._chunk(index)

    def _recompute_keys(self, index: int) -> None:
        """Run one chunk to where its keys and values are known."""
        bounds, cache = self.bounds[index], self._cache(index, stop_after_update=True)
        view = self.call.view(bounds)
        with torch.no_grad(), self._replayed(index), suppress(KeysCaught):
            self.call.run(self._hidden(index), bounds, view, cache)
        assert cache.pair is not None, "the forward pass caught keys here"
        self._held.write(bounds[0], *cache.pair)

    def _chunk(self, index: int) -> None:
        """Back-propagate through one chunk and send its shares on."""
        start, stop = self.bounds[index]
        view = self.call.view((start, stop), self._held, self._tape(start, stop))
        deeper = self.hidden_grad is not None
        with torch.enable_grad(), self._replayed(index), keeping(self._ledger):
            cache = self._cache(index)
            hidden_BCD = self._hidden(index).detach().requires_grad_(deeper)
            out_BCD = self.call.run(hidden_BCD, (start, stop), view, cache)
        outs, grads = self._outputs(start, stop, out_BCD, cache)
        leaves = [] if view is None else view.leaves
        inputs = [*([hidden_BCD] if deeper else []), *cache.incoming.values()]
        inputs += [x for _, *pair in leaves for x in pair]
        if stop == self.call.tokens:  # one chunk stands for all
            self.call.refuse_strays(outs, inputs)
        shares = iter(self.sums.shares_of(outs, inputs, grads))
        self._send(shares, (start, stop), cache.incoming, leaves)

    def _send(
        self, shares: Iterator[Tensor | None], bounds: tuple[int, int], states: States,
        leaves: list[tuple[Place, Tensor, Tensor]],
    ) -> None:  # fmt: skip
        """Send shares where they belong: hidden states, states, earlier keys."""
        if self.hidden_grad is not None:
            share = next(shares)
            self.hidden_grad[:, slice(*bounds)] = 0 if share is None else share
        came = zip(states, islice(shares, len(states)), strict=True)
        self._state_grads = {key: grad for key, grad in came if grad is not None}
        for place, _, _ in leaves:
            self._held.add_grads(place, next(shares), next(shares))

    def _outputs(
        self, start: int, stop: int, out_BCD: Tensor, cache: ChunkCache
    ) -> tuple[list[Tensor], list[Tensor]]:
        pairs = [(out_BCD, self.grad[:, start:stop])]
        sent = self._held.grads(start, stop)
        if sent is not None and cache.pair is not None:
            pairs += [(x, g.to(x.dtype)) for x, g in zip(cache.pair, sent, strict=True)]
        pairs += [(cache.outgoing[key], grad) for key, grad in self._state_grads.items()]
        pairs = [pair for pair in pairs if pair[0].requires_grad]
        return [out for out, _ in pairs], [grad for _, grad in pairs]

    def _cache(self, index: int, *, stop_after_update: bool = False) -> ChunkCache:
        """Make the chunk's cache; with gradients on, its incoming states are leaves."""
        on = torch.is_grad_enabled()
        states = {
            key: x.detach().requires_grad_(on and x.is_floating_point())
            for key, x in self.kept.states[index].items()
        }
        return ChunkCache(self.bounds[index][0], states, stop_after_update=stop_after_update)

    def _tape(self, start: int, stop: int) -> Tape | None:
        kept = [
            (out_BTHK[:, start:stop].transpose(1, 2), lse_BHT[:, :, start:stop])
            for out_BTHK, lse_BHT in self.kept.attended
        ]
        return Tape(kept) if kept else None

    def _hidden(self, index: int) -> Tensor:
        return self.kept.source.chunk(*self.bounds[index])

    def _replayed(self, index: int) -> AbstractContextManager[None]:
        return replayed(self.kept.random[index], self.grad.device)
