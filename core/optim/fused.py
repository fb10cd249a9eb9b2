"""The step inside the backward: each weight is stepped as soon as its gradient is whole, which then goes.

APOLLO limits the growth of each weight's update by itself and asks for no norm over all gradients
(arXiv 2412.05270, algorithm 1), so nothing has to wait. Gradients of one layer exist at once. The
weights afterwards are those of an ordinary step, bit for bit: what is below a layer never looks at
that layer's weights again. Where gradients of several passes add up there is nothing whole to step.
"""

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from core.optim.named import NamedOptimizer
from core.ranks import portion_of


class FusedStep:
    """What `backward_linear` is given as `settle`; call `finish` after it.

    A gradient that is not finite steps nothing, and shows in the norm. Weights narrower than float32
    get float32 gradients (`Tensor.grad_dtype`), for no more than a layer of these exists.
    """

    def __init__(self, optimizer: NamedOptimizer) -> None:
        self.optimizer = optimizer
        self._params = [p for group in optimizer.param_groups for p in group["params"]]
        self._norms: list[Tensor] = []
        for param in self._params:
            if isinstance(param, DTensor):  # torch tells when its gradient is reduced
                param.register_post_accumulate_grad_hook(self)
            elif param.dtype.itemsize < torch.float32.itemsize:
                param.grad_dtype = torch.float32

    @torch.no_grad()
    def __call__(self, param: Tensor) -> None:
        """Step a weight whose gradient is whole, and free that."""
        if param.grad is None:
            return
        portion = portion_of(param)
        norm = portion.norm(torch.linalg.vector_norm(portion.of(param.grad)))
        self._norms.append(norm)
        if bool(norm.isfinite()):
            self.optimizer.step_parameter(param)
        param.grad = None

    def finish(self) -> float:
        """Step what autograd alone has served; give the norm of the pass's whole gradient."""
        for param in self._params:
            self(param)
        norms, self._norms = self._norms, []
        return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0
