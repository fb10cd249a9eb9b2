"""Whether tokens learn of later ones, tried on the untouched model.

A layer that is streamed cannot look ahead, for its chunks have not seen what comes. One that is run
whole can; and then the padding at the end of a row, which no causal layer needs to be told of,
would change the scores of the tokens before it.
"""

import torch
from torch import Tensor, nn

from core.streambp.records import RecordedForward, departure, first
from core.streambp.swaps import Undo


def looking_ahead(
    decoder: nn.Module, layers: list[nn.Module], records: list[RecordedForward], ids_BT: Tensor
) -> int | None:
    """Give the number of the first layer that changes earlier tokens with the last one; or None.

    `records` are of a run over `ids_BT`; the run here overwrites them.
    """
    before = [record.out for record in records]
    other_BT = ids_BT.clone()
    other_BT[:, -1] = ids_BT[:, -2]
    with torch.no_grad(), Undo() as undo:
        for layer, record in zip(layers, records, strict=True):
            undo.set(layer, "forward", record)
        decoder(input_ids=other_BT, use_cache=False)
    pairs = zip(before, records, strict=True)
    tokens = ids_BT.shape[1]
    changed = (_changed(out, record, tokens) for out, record in pairs)
    return next((i for i, ahead in enumerate(changed) if ahead), None)


def _changed(before: object, record: RecordedForward, tokens: int) -> bool:
    if before is None or record.hidden is None:  # never called, or with its input by another name
        return False
    now, then = first(record.out), first(before)
    if tokens not in then.shape:
        return False
    # Most families have tokens on axis 1; some put streams before them, some behind.
    axis = then.shape.index(tokens)
    earlier = (x.narrow(axis, 0, tokens - 1) for x in (now, then, record.hidden))
    return departure(*earlier) is not None
