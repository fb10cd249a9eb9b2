"""Random bits as a pure function of a counter, the same on every device and under any sharding.

Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, *Parallel Random Numbers: As Easy as 1, 2, 3*, SC 2011):
ten rounds of two 32 x 32 -> 64 bit products turn a counter of four words and a key of two into four
random words. There is no state to save and no order of drawing: whoever knows the index of an
element knows its bits. Written in int64 tensor operations, which are exact everywhere.
"""

import hashlib

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF

Key = tuple[int, int]
"""Two unsigned 32-bit words."""


def stream_key(purpose: str, seed: int, name: str) -> Key:
    """Derive a stream's key; another purpose, seed or name gives an unrelated stream."""
    text = f"{purpose}\0{seed}\0{name}".encode()
    digest = hashlib.blake2b(text, digest_size=8, person=b"castalia.optim").digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: Key) -> Tensor:
    """Draw four random words for each counter.

    counter: four int64 tensors that broadcast together, values in [0, 2^32)
    key:     two words in [0, 2^32)
    Returns int64 of the broadcast shape with a last axis of 4, values in [0, 2^32).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # A signed product wraps to the same 64 bits as the unsigned one. Only what is multiplied
        # next needs its upper half cleared; the words in between carry theirs along.
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = _xor(product1 >> 32, c1).bitwise_xor_(k0).bitwise_and_(_WORD)
        c2 = _xor(product0 >> 32, c3).bitwise_xor_(k1).bitwise_and_(_WORD)
        c1, c3 = product1, product0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return torch.stack(torch.broadcast_tensors(c0, c1, c2, c3), dim=-1).bitwise_and_(_WORD)


def _xor(fresh: Tensor, other: Tensor) -> Tensor:
    """In place where the shapes allow: they grow over the first rounds, as the counters mix."""
    return fresh.bitwise_xor_(other) if fresh.shape == other.shape else fresh ^ other
