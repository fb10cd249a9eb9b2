"""A row that is split: every target stays one, once, and is predicted from the token before it."""

import pytest

from core.data.encoded import Encoded
from core.data.overlength import NothingToTrainError, fit


@pytest.mark.parametrize("length", [9, 10, 11, 12, 15, 29, 30])
@pytest.mark.parametrize("context", [2, 3, 8])
def test_each_token_but_the_first_is_a_target_once_after_its_own_predecessor(length, context):
    whole = Encoded(list(range(length)), [False, *[True] * (length - 1)], line=4)
    pieces, report = fit([whole], context, "split")
    predicted = [
        (piece.input_ids[t - 1], piece.input_ids[t])
        for piece in pieces
        for t in range(len(piece))
        if piece.trained[t]
    ]
    assert predicted == [(t - 1, t) for t in range(1, length)]
    assert all(2 <= len(piece) <= context and piece.line == 4 for piece in pieces)
    assert (report.split, report.truncated, report.dropped) == (1, 0, 0)


def test_a_piece_without_a_target_is_counted_and_not_trained():
    whole = Encoded(list(range(10)), [False] * 8 + [True] * 2, line=1)
    pieces, report = fit([whole], 4, "split")
    assert (len(pieces), report.kept, report.without_target) == (1, 1, 2)
    assert pieces[0].targets == 2


def test_rows_that_fit_are_left_as_they_are():
    rows = [Encoded([1, 2, 3], [False, True, True], 1)]
    assert fit(rows, 3, "split")[0] == rows
    with pytest.raises(NothingToTrainError):
        fit([Encoded([1] * 9, [False] * 9, 1)], 4, "split")
