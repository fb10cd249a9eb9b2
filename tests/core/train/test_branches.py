"""Answers in passes: whatever way they are laid out, each answer's tokens are scored the same."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from core.data.branches import Group
from core.streambp import answer_logps, attach
from core.train.lessons.branches import branch_passes

CPU = torch.device("cpu")


@pytest.fixture
def branches():
    made = torch.Generator().manual_seed(4)

    def ids(count):
        return torch.randint(2, 258, (count,), generator=made).tolist()

    shapes = [(5, (3, 7)), (12, (1, 4, 2)), (1, (6,))]
    return [Group.of(ids(p), [ids(a) for a in answers]) for p, answers in shapes]


@pytest.fixture
def model(toy_model):
    model = AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float64)
    attach(model, chunk_tokens=8)
    return model


@torch.no_grad()
def scores(model, branches, tokens, *, shared):
    """Each answer's summed log-probability, by the numbers of its prompt and its own."""
    found = {}
    for part in branch_passes(branches, tokens, CPU, share=shared):
        logp_BT = answer_logps(model, *part.scored, head_chunk_tokens=16)
        keys = [(m, number) for m in part.members for number in range(len(branches[m].answers))]
        for place, key in enumerate(keys):
            assert key not in found
            found[key] = logp_BT[part.answer_BT == place].sum().item()
    return found


def test_every_layout_scores_every_answer_as_the_stock_model_does(model, branches, toy_model):
    stock = AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float64)
    want = {}
    for member, one in enumerate(branches):
        for number, answer in enumerate(one.answers):
            ids = torch.tensor([[*one.prompt_ids, *answer.input_ids]])
            with torch.no_grad():
                logp = stock(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None])
            want[member, number] = logp[len(one.prompt_ids) - 1 :].sum().item()
    for shared in (True, False):
        for tokens in (1, 25, 1000):
            assert scores(model, branches, tokens, shared=shared) == pytest.approx(want, abs=1e-9)
