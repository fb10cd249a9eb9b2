"""Weights that are not kept in the form in which they compute, and the time for which they have it.

A weight may lie in memory as codes and scales. Its class then has a method `at_work()`, a context
manager: while it is entered, any thread that computes with the weight finds one computing form, made
at first use and freed when the last block ends. Whoever walks over chunks enters it around the walk,
so that the form is made once for all of them and exists for one layer at a time. Nothing else is asked
of such a weight but what is asked of any: operations take it, its gradient is an ordinary tensor.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, TypeGuard

from torch import Tensor, nn


class WorkingWeight(Protocol):
    """What is asked of the class of such a weight."""

    def at_work(self) -> AbstractContextManager[None]:
        """While the block runs, hold the computing form; blocks may nest and overlap."""
        ...


def works_in_another_form(param: Any) -> TypeGuard[WorkingWeight]:
    """Say whether a weight speaks this protocol."""
    return hasattr(type(param), "at_work")


def is_ordinary(param: Tensor) -> bool:
    """Say whether a parameter is torch's own kind, or one that speaks this protocol."""
    return type(param) is nn.Parameter or works_in_another_form(param)


@contextmanager
def at_work(params: Iterable[Tensor]) -> Iterator[None]:
    """While the block runs, hold the computing form of every weight among `params` that has one."""
    with ExitStack() as stack:
        for param in params:
            if works_in_another_form(param):
                stack.enter_context(param.at_work())
        yield
