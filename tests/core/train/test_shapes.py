"""No pass of a step is larger than one that the plan was asked about, however its rows are cut."""

import random

import pytest
import torch

from core.data.branches import Group
from core.data.pair import Answer, EncodedPair
from core.data.prompts import EncodedPrompt
from core.rollout.batches import batches
from core.rollout.sampler import Sampling
from core.spec.job import JobSpec
from core.spec.model import ModelFacts
from core.train.lessons.branches import branch_passes
from core.train.shapes import Length, length_of, longest_length, work_of

FACTS = ModelFacts(name="m", architecture="x", longest_context=None, vocabulary=9)
GRADER = {
    "type": "string_check", "name": "r", "operation": "eq", "input": "{{ sample.output_text }}",
    "reference": "a",
}  # fmt: skip
GRPO = {"kind": "grpo", "group_size": 3, "max_completion_tokens": 12, "grader": GRADER}


def spec(objective, **words):
    trainer = {"context_length": 64, "tokens_per_pass": 150, **words.pop("trainer", {})}
    document = {"model": "m", "training_file": "t", "hyperparameters": {"batch_size": 4}, **words}
    return JobSpec.parse(document | {"trainer": trainer | {"objective": objective}}).resolved(FACTS)


def pairs(count, seed):
    drawn = random.Random(seed)
    lengths = [[drawn.randint(1, 20) for _ in range(3)] for _ in range(count)]
    return [EncodedPair([1] * p, answer(c), answer(r)) for p, c, r in lengths]


def answer(tokens):
    return Answer([2] * tokens, [True] * tokens)


def covered(part, shapes):
    rows, tokens = part.input_ids_BT.shape
    return any(rows <= r and tokens <= t for r, t in shapes)


@pytest.mark.parametrize("mixing", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_pass_of_pairs_is_covered(mixing, seed):
    rows, job = pairs(9, seed), spec({"kind": "dpo"})
    work = work_of(job, [length_of(row, job) for row in rows], mixing=mixing)
    for start in range(0, 9, 4):
        step = rows[start : start + 4]
        for part in branch_passes(step, 150, torch.device("cpu"), share=not mixing):
            assert covered(part, work.learnt)
    whole = list(branch_passes(rows, 150, torch.device("cpu"), share=not mixing))
    assert all(covered(part, work.scored) for part in whole)


@pytest.mark.parametrize("mixing", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_pass_of_groups_is_covered_and_whole_rows_without_sharing_are_more(mixing, seed):
    drawn, job = random.Random(seed), spec(GRPO)
    prompts = [EncodedPrompt([1] * drawn.randint(1, 40), 36, None, 0) for _ in range(4)]
    groups = [
        Group.of(p.input_ids, [[2] * drawn.randint(1, 12) for _ in range(3)]) for p in prompts
    ]
    if mixing:
        groups = [Group(g.prompt_ids, (a,)) for g in groups for a in g.answers]
    work = work_of(job, [length_of(p, job) for p in prompts], mixing=mixing)
    for part in branch_passes(groups, 150, torch.device("cpu"), share=not mixing):
        assert covered(part, work.learnt)


@pytest.mark.parametrize("prompts", [[40, 7, 3, 30], [5, 5, 5, 5], [52]])
def test_every_batch_of_answers_is_covered(prompts):
    job = spec(GRPO)
    lengths = [length_of(EncodedPrompt([1] * n, 36, None, 0), job) for n in prompts]
    work = work_of(job, lengths, mixing=False)
    for slots in batches(prompts, Sampling(3, 12, frozenset()), 150, even=False):
        several = {slot.prompt for slot in slots}
        longest = max(prompts[prompt] for prompt in several)
        assert any(
            len(slots) <= drawn.rows
            and longest <= drawn.prompt_tokens
            and len(several) <= drawn.prompts
            for drawn in work.drawn
        )


def test_only_what_looks_back_at_the_base_or_is_measured_is_scored():
    one = [Length(30, 20)]
    asked = [
        spec({"kind": "sft"}),
        spec({"kind": "sft"}, validation_file="v"),
        spec({"kind": "dpo"}),
        spec({"kind": "dpo", "reference": "none"}),
        spec(GRPO),
        spec(GRPO | {"kl_weight": 0.1}),
    ]
    found = [work_of(job, one, mixing=False).scored != [] for job in asked]
    assert found == [False, True, True, False, False, True]


def test_the_longest_row_that_a_spec_allows_is_as_long_as_its_context():
    assert longest_length(spec({"kind": "sft"})) == Length(64, 64)
    assert longest_length(spec(GRPO)) == Length(52 + 3 * 12, 64)
    assert longest_length(spec({"kind": "dpo"})).branch == 64
