"""The dequantised form of an int8 weight: made once while anybody is at work with it, then freed."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.optim.int8 import Int8Weight


def weight(*shape):
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.1
    return Int8Weight.quantised(value, 8)


def parameter(*shape):
    return nn.Parameter(weight(*shape))


@pytest.fixture
def made(monkeypatch):
    """How often the dequantised form was made."""
    calls, original = [], Int8Weight.dequantised

    def counted(self, dtype=None):
        calls.append(self)
        return original(self, dtype)

    monkeypatch.setattr(Int8Weight, "dequantised", counted)
    return calls


def test_at_work_the_form_is_made_once_for_every_alias_and_freed_at_the_end(made):
    kept, x = parameter(4, 20), torch.ones(2, 20)
    with kept.at_work():
        functional.linear(x, kept)
        with kept.at_work():
            (kept.detach() * 2).sum()
        functional.linear(x, kept).sum().backward()
        assert len(made) == 1
        assert kept.held.form.grad_fn is None
    assert kept.held.form is None
    functional.linear(x, kept)
    functional.linear(x, kept)
    assert len(made) == 3
    with pytest.raises(ZeroDivisionError), kept.at_work():
        raise ZeroDivisionError
    assert kept.held.users == 0


def test_a_write_at_work_is_seen_by_the_next_operation():
    kept = weight(4, 20)
    with kept.at_work():
        kept.sum()
        kept.copy_(torch.ones(4, 20))
        assert torch.allclose(kept + 0, torch.ones(4, 20), rtol=2e-5)


def test_the_form_made_without_autograd_is_not_handed_to_it():
    kept = parameter(4, 20)
    with kept.at_work():
        with torch.inference_mode():
            kept.sum()
        (torch.ones(4, 20, requires_grad=True) * kept).sum().backward()


def test_threads_share_the_form_and_the_last_one_frees_it(made):
    kept, gate, answers = weight(64, 64), threading.Barrier(4), []

    def work():
        with kept.at_work():
            kept.sum()
            gate.wait(timeout=30)
            answers.append(float(kept.sum()))
            gate.wait(timeout=30)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1
    assert len(answers) == 4
    assert len(made) <= 4
    assert kept.held.form is None
