"""What a layout says may be seen is exactly what causal documents may see."""

import pytest
import torch

from core.streambp.errors import LayoutError
from core.streambp.layout import Layout, chunks

CAUSAL = Layout.causal([7, 5], 7)
PACKED = Layout.packed([[3, 1, 2], [7]], 7)


def seen(layout: Layout, chunk: int, window: int | None = None) -> torch.Tensor:
    """The (B, T, T) table that the pieces of all chunks add up to; every entry at most once."""
    table = torch.zeros(len(layout.segments), layout.tokens, layout.tokens, dtype=torch.int64)
    for start, stop in chunks(layout.tokens, chunk):
        for piece in layout.pieces(start, stop, window):
            for query in range(piece.start, piece.stop):
                table[piece.rows, query, piece.start : query + 1] += 1
                for span in piece.earlier:
                    table[piece.rows, query, span.start : span.stop] += 1
    return table


def expected(layout: Layout) -> torch.Tensor:
    index = torch.arange(layout.tokens)
    first = index - layout.position_ids()
    causal = index[:, None] >= index[None, :]
    return (causal & (first[:, :, None] == first[:, None, :])).long()


@pytest.mark.parametrize("layout", [CAUSAL, PACKED])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 8])
def test_every_query_sees_its_document_up_to_itself_once(layout, chunk):
    assert torch.equal(seen(layout, chunk), expected(layout))


def test_a_window_drops_only_keys_that_no_query_of_the_piece_may_see():
    for layout in (CAUSAL, PACKED):
        index = torch.arange(layout.tokens)
        near = index[:, None] - index[None, :] < 3
        assert torch.equal(seen(layout, 2, window=3) * near, expected(layout) * near)
    assert CAUSAL.pieces(4, 6, window=3)[0].earlier[0].start == 2


def test_positions_restart_at_each_document_and_run_on_through_padding():
    assert PACKED.position_ids().tolist() == [[0, 1, 2, 0, 0, 1, 2], [0, 1, 2, 3, 4, 5, 6]]
    assert CAUSAL.position_ids().tolist() == [list(range(7))] * 2


@pytest.mark.parametrize("lengths", [[], [0], [3, 5], [True], [2.0]])
def test_lengths_that_describe_no_row_are_refused_by_name(lengths):
    with pytest.raises(LayoutError, match="row 0"):
        Layout.packed([lengths], 7)


def test_a_batch_of_another_shape_is_not_covered():
    with pytest.raises(LayoutError, match="2 rows of 8 tokens"):
        CAUSAL.check_covers(2, 8)
    with pytest.raises(LayoutError, match="at least one row"):
        Layout.causal([], 4)
