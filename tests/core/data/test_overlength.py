import pytest

from core.data.encoded import Encoded
from core.data.overlength import LengthReport, NothingToTrainError, OverlengthError, fit


def row(prompt, answer, line=0):
    return Encoded(list(range(prompt + answer)), [False] * prompt + [True] * answer, line)


def test_rows_that_fit_pass_untouched_and_are_counted():
    rows = [row(2, 3), row(1, 4)]
    kept, report = fit(rows, 5, "error")
    assert kept == rows
    assert report == LengthReport(kept=2, tokens=10, targets=7, longest=5)


def test_error_names_line_length_and_remedy():
    with pytest.raises(OverlengthError, match=r"line 9 has 6 tokens, .* 5\. .*on_overlength"):
        fit([row(2, 3), row(3, 3, line=9)], 5, "error")


def test_drop_keeps_the_others_and_counts():
    kept, report = fit([row(2, 3), row(9, 3), row(1, 1)], 5, "drop")
    assert [len(r) for r in kept] == [5, 2]
    assert (report.kept, report.dropped, report.truncated) == (2, 1, 0)


def test_truncate_right_keeps_the_beginning():
    kept, report = fit([row(3, 4)], 5, "truncate_right")
    assert kept == [Encoded([0, 1, 2, 3, 4], [False] * 3 + [True] * 2)]
    assert (report.kept, report.truncated, report.targets) == (1, 1, 2)


def test_truncate_left_keeps_the_end():
    kept, _ = fit([row(3, 4, line=2)], 5, "truncate_left")
    assert kept == [Encoded([2, 3, 4, 5, 6], [False] + [True] * 4, line=2)]


def test_the_first_token_after_a_cut_is_no_target():
    kept, report = fit([row(1, 6)], 4, "truncate_left")
    assert kept == [Encoded([3, 4, 5, 6], [False, True, True, True])]
    assert report.targets == 3


def test_rows_cut_before_their_answer_are_counted_never_kept():
    # Public reports trl#6668, #3927: a prompt longer than the context leaves no label.
    kept, report = fit([row(5, 2), row(1, 1), Encoded([1, 2], [False, False])], 4, "truncate_right")
    assert kept == [row(1, 1)]
    assert (report.kept, report.truncated, report.without_target) == (1, 1, 2)


def test_every_row_ends_in_exactly_one_count():
    rows = [row(p, a) for p in range(1, 7) for a in range(5)]
    for policy in ("drop", "truncate_left", "truncate_right"):
        kept, report = fit(rows, 5, policy)
        assert report.kept + report.dropped + report.without_target == len(rows)
        assert report.kept == len(kept)
        assert all(len(r) <= 5 and r.targets for r in kept)


@pytest.mark.parametrize(
    ("policy", "rows"), [("drop", [row(9, 9)]), ("truncate_right", [row(9, 1)])]
)
def test_nothing_left_is_an_error_with_the_counts(policy, rows):
    with pytest.raises(NothingToTrainError, match="context_length 4") as caught:
        fit(rows, 4, policy)
    assert caught.value.report.kept == 0


def test_no_rows_at_all_is_an_error():
    with pytest.raises(NothingToTrainError):
        fit([], 4, "drop")


def test_a_context_without_room_for_a_target_is_refused():
    with pytest.raises(ValueError, match="context_length is 1"):
        fit([row(1, 1)], 1, "drop")
