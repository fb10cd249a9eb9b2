"""A step's loss and gradient are those of its rows, however they are cut into passes.

The oracle is the stock model: one row at a time, its own loss, one division by the step's tokens.
A step of SGD with learning rate 1 moves each weight by its gradient, so that is what is compared.
"""

import itertools

import pytest
import torch
from transformers import AutoModelForCausalLM

from core.data.encoded import Encoded
from core.data.pack import pack
from core.streambp import attach
from core.train.learner import Learner
from core.train.lessons.supervised import SupervisedLesson
from core.train.passes import largest_passes, passes

LENGTHS = (5, 33, 12, 20)
ALL, EACH = 10_000, 1


@pytest.fixture
def rows():
    made = torch.Generator().manual_seed(1)

    def row(length):
        ids = torch.randint(2, 258, (length,), generator=made).tolist()
        trained = (torch.rand(length, generator=made) < 0.6).tolist()
        return Encoded(ids, [False, *trained[1:-1], True], line=length)

    return [row(length) for length in LENGTHS]


@pytest.fixture
def stock(toy_model):
    return lambda: AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.float64)


@pytest.fixture
def stepped(stock, make_spec):
    """Loss and gradient by name of one step on rows."""

    def step(rows, tokens_per_pass):
        trainer = {"optimizer": {"kind": "sgd"}, "tokens_per_pass": tokens_per_pass}
        spec = make_spec(trainer=trainer)
        model = stock()
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        attach(model, chunk_tokens=8)
        lesson = SupervisedLesson(spec, model, None, rows, [])
        learner = Learner(spec, lesson, torch.optim.SGD(model.parameters(), lr=1.0))
        loss = learner.step(range(len(rows)), 1, learning_rate=1.0).loss
        return loss, {n: before[n] - p.detach() for n, p in model.named_parameters()}

    return step


def plain(model, rows):
    count = sum(row.targets for row in rows)
    total = 0.0
    for row in rows:
        ids = torch.tensor([row.input_ids])
        labels = torch.where(torch.tensor([row.trained]), ids, -100)
        loss = model(ids, labels=labels, num_items_in_batch=count).loss
        loss.backward()
        total += loss.item()
    return total, {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("tokens_per_pass", [EACH, 40, ALL])
def test_loss_and_gradient_are_the_stock_model_s(stepped, stock, rows, tokens_per_pass):
    loss, gradients = stepped(rows, tokens_per_pass)
    plain_loss, plain_gradients = plain(stock(), rows)
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    assert gradients.keys() == plain_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain_gradients[name], rtol=1e-5, atol=1e-7, msg=name)


def test_a_short_last_batch_is_divided_by_its_own_tokens(stepped, stock, rows):
    loss, gradients = stepped(rows[:1], ALL)
    plain_loss, plain_gradients = plain(stock(), rows[:1])
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain_gradients[name], rtol=1e-5, atol=1e-7, msg=name)


@pytest.mark.parametrize("capacity", [33, 45, 70, 100])
def test_packed_rows_give_the_loss_and_gradient_of_rows_apart(stepped, rows, capacity):
    packed = pack(rows, capacity)
    assert len(packed) < len(rows)
    (loss, gradients), (plain_loss, plain_gradients) = stepped(packed, ALL), stepped(rows, EACH)
    assert loss == pytest.approx(plain_loss, abs=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain_gradients[name], rtol=1e-9, atol=1e-12, msg=name)


def test_padding_beside_a_longer_row_changes_no_loss(make_spec, stock, rows):
    model = stock()
    attach(model, chunk_tokens=8)
    apart, together = (
        SupervisedLesson(
            make_spec(trainer={"tokens_per_pass": tokens}), model, None, [], rows
        ).measure()["full_valid_loss"]
        for tokens in (EACH, ALL)
    )
    assert apart == pytest.approx(together, abs=1e-6)


def test_every_row_goes_through_once_and_a_pass_keeps_to_its_tokens(rows):
    cut = list(passes(rows, 40, torch.device("cpu")))
    assert sum(part.input_ids_BT.shape[0] for part in cut) == len(rows)
    assert max(part.input_ids_BT.numel() for part in cut) <= 40
    assert sum(float(part.weight_BT.sum()) for part in cut) == sum(row.targets for row in rows)


def test_a_target_is_the_next_token_and_never_the_padding():
    short, long = Encoded([7, 8], [False, True]), Encoded([4, 5, 6], [False, False, True])
    (part,) = passes([short, long], ALL, torch.device("cpu"))
    assert part.input_ids_BT.tolist() == [[4, 5, 6], [7, 8, 0]]
    assert part.target_ids_BT.tolist() == [[-100, 6, -100], [8, -100, -100]]


@pytest.mark.parametrize("tokens_per_pass", [EACH, 40, 64, ALL])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_no_pass_is_both_wider_and_longer_than_the_largest(rows, tokens_per_pass, batch_size):
    largest = largest_passes(map(len, rows), batch_size, tokens_per_pass)
    for step in itertools.permutations(rows, batch_size):
        for one in passes(step, tokens_per_pass, torch.device("cpu")):
            count, tokens = one.input_ids_BT.shape
            assert any(count <= most and tokens <= longest for most, longest in largest)
    longest = max(LENGTHS)
    assert (min(batch_size, max(1, tokens_per_pass // longest)), longest) in largest
