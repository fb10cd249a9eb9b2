import pytest

from core.data.encoded import Encoded, right_pad

E = 2


def test_padding_is_by_length_when_pad_is_the_end_of_turn():
    # Public reports trl#1623, unsloth#416: ids [5, 6, E, E, E], mask [1, 1, 1, 0, 0].
    short = Encoded([5, 6, E], [False, True, True])
    long = Encoded([1, 1, 1, 1, 1], [False] * 5)
    padded = right_pad([short, long], pad_id=E)
    assert padded.input_ids[0] == [5, 6, E, E, E]
    assert padded.real[0] == [True, True, True, False, False]
    assert padded.trained[0] == [False, True, True, False, False]


def test_rows_of_one_length_are_left_as_they_are():
    row = Encoded([1, 2], [False, True])
    assert right_pad([row, row], 0).real == [[True, True], [True, True]]
    assert right_pad([], 0).input_ids == []


def test_the_first_token_is_no_target():
    with pytest.raises(ValueError, match="token 0"):
        Encoded([1], [True])


def test_ids_and_marks_have_one_length():
    with pytest.raises(ValueError, match="2 ids but 1 marks"):
        Encoded([1, 2], [False])
