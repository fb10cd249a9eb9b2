import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.order import OrderError, epoch_order, steps, total_steps

GOLDEN_0 = [2, 8, 3, 9, 7, 0, 4, 6, 1, 5]
GOLDEN_1 = [8, 1, 9, 7, 6, 4, 0, 5, 2, 3]


def test_the_order_is_the_same_for_ever():
    # Golden: a change here would make every checkpoint resume with other rows.
    assert epoch_order(10, seed=7, epoch=0) == GOLDEN_0
    assert epoch_order(10, seed=7, epoch=1) == GOLDEN_1


@given(st.integers(0, 50), st.integers(0, 2**31), st.integers(0, 20))
def test_an_epoch_visits_every_row_once(rows, seed, epoch):
    assert sorted(epoch_order(rows, seed, epoch)) == list(range(rows))


def test_seed_and_epoch_both_change_the_order():
    orders = {tuple(epoch_order(20, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_no_global_random_state_is_read_or_moved():
    random.seed(1)
    before = random.getstate()
    assert epoch_order(9, 1, 1) == epoch_order(9, 1, 1)
    assert random.getstate() == before


def test_every_place_is_about_equally_likely():
    firsts = [epoch_order(4, seed, 0)[0] for seed in range(2000)]
    assert all(400 < firsts.count(row) < 600 for row in range(4))


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4), st.integers(0, 99))
def test_steps_walk_the_epochs_and_keep_the_short_batch(rows, batch, epochs, seed):
    plan = steps(rows, batch, epochs, seed)
    assert len(plan) == total_steps(rows, batch, epochs)
    walked = [row for step in plan for row in step]
    assert walked == [row for e in range(epochs) for row in epoch_order(rows, seed, e)]
    assert all(1 <= len(step) <= batch for step in plan)


def test_a_step_depends_on_its_number_alone():
    whole = list(steps(23, 4, 5, seed=3))
    for k in (29, 0, 17, 6, 5):
        assert steps(23, 4, 5, seed=3)[k] == whole[k]


def test_max_steps_cuts_the_run_and_nothing_else():
    whole, cut = steps(10, 3, 4, seed=1), steps(10, 3, 4, seed=1, max_steps=6)
    assert len(cut) == 6 == total_steps(10, 3, 4, max_steps=6)
    assert list(cut) == whole[:6]
    assert total_steps(10, 3, 4, max_steps=99) == len(whole)


def test_a_step_after_the_last_is_an_error():
    plan = steps(4, 2, 1, seed=0)
    assert plan[-1] == plan[1]
    with pytest.raises(IndexError, match="step 2 of 2"):
        plan[2]


@pytest.mark.parametrize("field", ["rows", "batch_size", "n_epochs", "max_steps"])
def test_a_count_below_one_is_refused_by_name(field):
    counts = {"rows": 4, "batch_size": 2, "n_epochs": 1, "max_steps": 1, field: 0}
    with pytest.raises(OrderError, match=f"{field} is 0"):
        steps(seed=0, **counts)


def test_a_batch_serves_its_updates_one_after_the_other():
    once, thrice = steps(10, 4, 2, seed=5), steps(10, 4, 2, seed=5, updates=3)
    assert len(thrice) == 3 * len(once)
    assert list(thrice) == [batch for batch in once for _ in range(3)]
    assert thrice.per_epoch == 9
    assert total_steps(10, 4, 2, max_steps=7, updates=3) == 7
    with pytest.raises(OrderError, match="updates is 0"):
        steps(10, 4, 2, seed=5, updates=0)
