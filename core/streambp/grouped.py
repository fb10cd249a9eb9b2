"""What an attention kernel is, and how one is given heads that share their keys and values.

Legend: B rows, H query heads, G key heads, Q queries, K keys, D head width.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from core.streambp.view import Attended

Inputs = tuple[Tensor, Tensor, Tensor]  # q_BHQD, k_BGKD, v_BGKD: each key head has H / G queries


class Kernel(Protocol):
    """Attention, whole or `causal`; causal needs as many keys as queries."""

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """Attend."""
        ...

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """Gradients of q, k, v; with the *merged* out and lse they are this part's exact share."""
        ...


@dataclass(frozen=True, slots=True)
class Repeating:
    """A kernel that wants as many key heads as query heads: keys and values are repeated for it."""

    kernel: Kernel

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """As Kernel.forward."""
        return self.kernel.forward(self._repeated(qkv), causal=causal, scale=scale)

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """As Kernel.backward."""
        repeated = self._repeated(qkv)
        dq, dk, dv = self.kernel.backward(grad_BHQD, repeated, attended, causal=causal, scale=scale)
        grouped = (*qkv[1].shape[:2], -1, *qkv[1].shape[2:])
        return dq, dk.reshape(grouped).sum(2), dv.reshape(grouped).sum(2)

    @staticmethod
    def _repeated(qkv: Inputs) -> Inputs:
        q, k, v = qkv
        times = q.shape[1] // k.shape[1]
        return q, k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel that is given the queries of all heads of a group as those of one head.

    Where every query sees every key, heads that share keys differ in nothing but their queries. Of
    so many queries at once a kernel takes larger blocks, and sums dk and dv over the group itself.
    """

    kernel: Kernel

    def forward(self, qkv: Inputs, *, causal: bool, scale: float) -> Attended:
        """As Kernel.forward."""
        query, key, value = qkv
        if causal or query.shape[1] == key.shape[1]:
            return self.kernel.forward(qkv, causal=causal, scale=scale)
        packed = self._packed(query, key), key, value
        out, lse = self.kernel.forward(packed, causal=False, scale=scale)
        return out.reshape(query.shape[:3] + out.shape[3:]), lse.reshape(query.shape[:3])

    def backward(
        self, grad_BHQD: Tensor, qkv: Inputs, attended: Attended, *, causal: bool, scale: float
    ) -> Inputs:
        """As Kernel.backward."""
        query, key, value = qkv
        if causal or query.shape[1] == key.shape[1]:
            return self.kernel.backward(grad_BHQD, qkv, attended, causal=causal, scale=scale)
        grad, packed, out, lse = (self._packed(x, key) for x in (grad_BHQD, query, *attended))
        dq, dk, dv = self.kernel.backward(
            grad, (packed, key, value), (out, lse), causal=False, scale=scale
        )
        return dq.reshape(query.shape), dk, dv

    @staticmethod
    def _packed(x_BHQ: Tensor, key_BGKD: Tensor) -> Tensor:
        rows, groups = key_BGKD.shape[:2]
        queries = x_BHQ.shape[1] // groups * x_BHQ.shape[2]
        return x_BHQ.reshape(rows, groups, queries, *x_BHQ.shape[3:])
