"""Where a graph ends: in leaves, and by how many ways.

Some reach a layer by no way that is known here: their gradient would be lost in silence. A layer's
node in the graph of the whole has the hidden states and the layer's own parameters for inputs. What
else a chunk's graph ends in, a tensor that a hook adds for instance, gets nothing.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from core.streambp.errors import LayerCallError


def refuse_strays(layer: str, outs: Iterable[Tensor], known: Iterable[Tensor]) -> None:
    """Raise LayerCallError where the graph of `outs` ends in a leaf that is not among `known`."""
    ours = {id(x) for x in known}
    for leaf in ways_to_leaves(outs):
        if id(leaf) not in ours:
            raise LayerCallError(
                "layer",
                layer,
                f"a tensor of shape {tuple(leaf.shape)} that wants gradient reaches it and is no"
                " parameter of its: register it as one",
            )


def ways_to_leaves(outs: Iterable[Tensor]) -> Counter[Tensor]:
    """Count, for each leaf in the graph of `outs`, how many edges of nodes lead to it."""
    ways: Counter[Tensor] = Counter()
    seen: set[Any] = set()
    waiting: list[Any] = [get_gradient_edge(x).node for x in outs]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for onward, _ in node.next_functions:
            # Only nodes that accumulate into a leaf have a variable.
            if hasattr(onward, "variable"):
                ways[onward.variable] += 1
            elif onward is not None:
                waiting.append(onward)
    return ways
