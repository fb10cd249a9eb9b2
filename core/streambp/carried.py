"""States that a recurrent layer carries from chunk to chunk, and the cache that it finds them in.

Transformers' cache protocol knows two kinds, each of several by number: the last inputs of a causal
convolution, and the state of a recurrence. Forward, each chunk takes what the one before it left.
Backward, a chunk's incoming states are leaves of its graph, and what they collect is the gradient
of the outgoing states of the chunk before:

    grad([out_i, s_i], [h_i, s_{i-1}, params], [dout_i, ds_i])

Legend: B rows, X channels, C tokens of a chunk.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

States = dict[tuple[str, int], Tensor]  # by kind and number


class CarriedStates:
    """What one chunk finds, `incoming`, and what it leaves, `outgoing`."""

    def __init__(self, incoming: States | None = None) -> None:
        self.incoming: States = incoming or {}
        self.outgoing: States = {}

    # Parameters are named as in transformers' own cache: some layers give them by name.

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:  # noqa: ARG002
        """Give the last inputs of the convolution; None in the first chunk."""
        return self._came("convolution", state_idx)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:  # noqa: ARG002
        """Give the state of the recurrence; None in the first chunk."""
        return self._came("recurrence", state_idx)

    def update_conv_state(
        self,
        conv_states: Tensor,
        layer_idx: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **_: object,
    ) -> Tensor:
        """Put the earlier inputs before this chunk's, (B, X, C), and keep the last ones."""
        before = self.get_conv_state(layer_idx, state_idx)
        if before is None:
            size = conv_kernel_size or conv_states.shape[-1]
            whole = pad(conv_states, (max(size - conv_states.shape[-1], 0), 0))
        else:
            size = before.shape[-1]
            whole = torch.cat([before, conv_states], dim=-1)
        self.outgoing["convolution", state_idx] = whole[..., -size:]
        return whole

    def update_recurrent_state(
        self,
        recurrent_states: Tensor,
        layer_idx: int,  # noqa: ARG002
        state_idx: int = 0,
        **_: object,
    ) -> Tensor:
        """Keep the state after this chunk."""
        self.outgoing["recurrence", state_idx] = recurrent_states
        return recurrent_states

    def get_linear_cache(self, layer_idx: int) -> Tensor | None:
        """As get_recurrent_state, in the words of MiniMax."""
        return self.get_recurrent_state(layer_idx)

    def set_linear_cache(self, layer_idx: int, linear_cache: Tensor) -> None:
        """As update_recurrent_state, in the words of MiniMax."""
        self.update_recurrent_state(linear_cache, layer_idx)

    def is_recording_past(self, layer_idx: int = 0) -> bool:  # noqa: ARG002
        """Yes: so that no single-token kernel overwrites a state in place."""
        return True

    def _came(self, kind: str, state_idx: int) -> Tensor | None:
        state = self.incoming.get((kind, state_idx))
        # A clone, for some layers write their new state over the old one.
        return None if state is None else state.clone()
