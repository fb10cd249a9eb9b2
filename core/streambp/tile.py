"""Any module on one tile of tokens, differentiated by autograd within the tile.

Legend: C tokens of a tile, D width, E width of the answer.
"""

from collections.abc import Callable

from torch import Tensor, set_grad_enabled

from core.streambp.inner import GradientSums


class Tile:
    """One walk over tiles: `out` then, before the next `out`, perhaps `send_back`.

    `needs` says what gradient is wanted: of hidden_CD, of each of `params`.
    """

    def __init__(
        self, run: Callable[[Tensor], Tensor], params: list[Tensor], needs: list[bool]
    ) -> None:
        self._run, (self._deeper, *self._wanted) = run, needs
        self._sums = GradientSums([p for p, need in zip(params, self._wanted, strict=True) if need])
        self._graph: tuple[Tensor, Tensor] | None = None

    @property
    def differentiable(self) -> bool:
        """Whether any gradient is wanted."""
        return self._deeper or any(self._wanted)

    def out(self, hidden_CD: Tensor) -> Tensor:
        """Give the module's answer; the tile's graph shares it."""
        with set_grad_enabled(self.differentiable):
            hidden_CD = hidden_CD.detach().requires_grad_(self._deeper)
            out_CE = self._run(hidden_CD)
        self._graph = (hidden_CD, out_CE) if self.differentiable else None
        return out_CE.detach()

    def send_back(self, dout_CE: Tensor) -> Tensor | None:
        """Add the tile's share of the parameters' gradients; give dh_CD where it is wanted."""
        assert self._graph is not None, "out was not asked for, or nothing needs gradient"
        hidden_CD, out_CE = self._graph
        self._graph = None
        inputs = [hidden_CD] if self._deeper else []
        shares = self._sums.shares_of([out_CE], inputs, [dout_CE.to(out_CE.dtype)])
        return shares[0] if self._deeper else None

    def totals(self) -> list[Tensor | None]:
        """Give the gradient of each parameter in its dtype, None where it is not wanted."""
        totals = iter(self._sums.totals())
        return [next(totals) if need else None for need in self._wanted]
