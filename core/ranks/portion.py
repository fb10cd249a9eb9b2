"""What this process holds of a parameter: all of it, or some of its rows.

`fully_shard` and `replicate` make every parameter a DTensor. An optimizer steps the local tensor, and asks
for sums over the rows that lie elsewhere where its rule needs one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


@dataclass(frozen=True, slots=True)
class Portion:
    """All of a parameter's rows, or those that are here: ``value`` lies in the parameter's own memory.

    ``start``: the first of them, along the first axis; ``shape``: the whole parameter's; ``mesh``: the
    processes among which its rows are cut, None where they are not.
    """

    value: Tensor
    start: int
    shape: torch.Size
    mesh: DeviceMesh | None

    @property
    def rows(self) -> slice:
        """Which of the whole's these are, along the first axis."""
        return slice(self.start, self.start + self.value.shape[0])

    @property
    def offset(self) -> int:
        """The number of the first element in the whole parameter."""
        return self.start * self.shape[1:].numel()

    def total(self, sums: Tensor) -> Tensor:
        """Add up, in place, what each process has summed over its own rows."""
        if self.mesh is not None:
            distributed.all_reduce(sums, group=self.mesh.get_group())
        return sums

    def norm(self, norm: Tensor) -> Tensor:
        """Norms over all rows, from those over the rows of each process."""
        return norm if self.mesh is None else self.total(norm.square()).sqrt_()

    def of(self, like: Tensor) -> Tensor:
        """This process's rows of a tensor that is spread as the parameter is, such as its gradient."""
        return like.to_local() if isinstance(like, DTensor) else like

    def whole(self, rows: Tensor) -> Tensor:
        """All rows, on each process, of a tensor that is cut as the parameter is; each must ask."""
        if self.mesh is None:
            return rows
        shape = torch.Size((self.shape[0], *rows.shape[1:]))
        stride = torch.empty(shape, device="meta").stride()
        cut = DTensor.from_local(
            rows, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride
        )
        return cut.full_tensor()


def portion_of(param: Tensor) -> Portion:
    """What is here of a parameter."""
    if not isinstance(param, DTensor):
        return Portion(param, 0, param.shape, None)
    local = param.to_local()
    (placement,) = param.placements
    if not isinstance(placement, Shard):
        return Portion(local, 0, param.shape, None)
    assert placement.dim == 0, "fully_shard cuts along the first axis"
    mesh = param.device_mesh
    _, first = compute_local_shape_and_global_offset(param.shape, mesh, param.placements)
    return Portion(local, first[0] if local.numel() else 0, param.shape, mesh)


def without_bytes(param: Tensor) -> Portion:
    """The whole parameter's shape and dtype, and nothing else."""
    value = torch.empty(param.shape, dtype=param.dtype, device="meta")
    return Portion(value, 0, param.shape, None)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, on every rank; each must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
