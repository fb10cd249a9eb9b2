"""Pairs are cut into passes that fit, each pair whole, once, and without padding where they share."""

import pytest
import torch

from core.data.branches import Answer
from core.data.pair import EncodedPair
from core.train.lessons.branches import NO_ANSWER, branch_passes

SIZES = [(5, 3, 2), (9, 4, 6), (2, 1, 1), (5, 2, 3), (1, 7, 2)]


def pairs():
    """The tokens of pair k are its number in hundreds, and tell prompt, chosen and rejected."""

    def part(pair, first, count):
        return [100 * pair + first + i for i in range(count)]

    return [
        EncodedPair(
            part(k, 0, p),
            Answer(part(k, 20, c), [True] * c),
            Answer(part(k, 40, r), [False] * (r - 1) + [True]),
        )
        for k, (p, c, r) in enumerate(SIZES)
    ]


@pytest.mark.parametrize("limit", [1, 20, 40, 1000])
@pytest.mark.parametrize("share", [True, False])
def test_every_scored_token_is_there_once_under_its_own_answer(limit, share):
    made = pairs()
    found = []
    for part in branch_passes(made, limit, torch.device("cpu"), share=share):
        for number, index in enumerate(part.members):
            for side, answer in enumerate(made[index].answers):
                ids = part.input_ids_BT[part.answer_BT == 2 * number + side].tolist()
                kept = zip(answer.input_ids, answer.scored, strict=True)
                assert ids == [token for token, scored in kept if scored]
            found.append(index)
    assert sorted(found) == list(range(len(made)))


@pytest.mark.parametrize("limit", [1, 20, 40, 1000])
@pytest.mark.parametrize("share", [True, False])
def test_passes_fit_and_shared_ones_have_no_padding(limit, share):
    for part in branch_passes(pairs(), limit, torch.device("cpu"), share=share):
        assert part.input_ids_BT.numel() <= limit or len(part.members) == 1
        assert part.answer_BT.max() == 2 * len(part.members) - 1
        if share:
            assert part.input_ids_BT.shape == (1, part.tokens)


def test_an_answer_apart_stands_after_a_prompt_of_its_own():
    (part,) = branch_passes(pairs()[:1], 100, torch.device("cpu"), share=False)
    assert part.input_ids_BT.tolist() == [[0, 1, 2, 3, 4, 20, 21, 22], [0, 1, 2, 3, 4, 40, 41, 0]]
    none = NO_ANSWER
    assert part.answer_BT.tolist() == [[none] * 5 + [0] * 3, [none] * 6 + [1, none]]
    assert part.layout.is_plain
    assert part.tokens == 15
