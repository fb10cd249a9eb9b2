"""Formulas run: a loop over the program's steps and a stack of floats.

Every result is looked at: one that is no finite number ends the run with an error that names the step.
"""

import math
from collections.abc import Callable, Mapping

from core.graders.verdict import Errors, GradingError
from core.spec.formula import Formula, Step

OPERATIONS: dict[str, Callable[..., float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "^": math.pow,
    "negate": lambda value: -value,
    "min": min,
    "max": max,
    "abs": abs,
    "floor": lambda value: float(math.floor(value)),
    "ceil": lambda value: float(math.ceil(value)),
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
}


def evaluate(formula: Formula, variables: Mapping[str, float]) -> float:
    """What ``formula`` is worth, finite. Raises GradingError (formula_parse_error) where it is nothing."""
    stack: list[float] = []
    for step in formula.steps:
        if step.action == "push":
            stack.append(_finite(step, step.number))
        elif step.action == "load":
            stack.append(variables[step.name])
        else:
            values = stack[-step.arity :]
            del stack[-step.arity :]
            stack.append(_called(step, values))
    return stack[-1]


def _called(step: Step, values: list[float]) -> float:
    try:
        value = OPERATIONS[step.name](*values)
    except ZeroDivisionError:
        raise _worth_nothing(step, "division by zero") from None
    except OverflowError:
        raise _worth_nothing(step, "overflow") from None
    except ValueError:
        raise _worth_nothing(step, f"is not defined at {values}") from None
    return _finite(step, value)


def _finite(step: Step, value: float) -> float:
    if not math.isfinite(value):
        raise _worth_nothing(step, "overflow")
    return value


def _worth_nothing(step: Step, reason: str) -> GradingError:
    details = f"'{step.name}' of the formula: {reason}"
    return GradingError(Errors(formula_parse_error=True, other_error_details=details))
