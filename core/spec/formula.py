"""The formula of a multi grader, read into a program for a stack; nothing is ever evaluated as Python.

Its grammar, by binding from loose to tight (``^`` groups to the right, the rest to the left):

    sum     = product (("+" | "-") product)*
    product = sign (("*" | "/") sign)*
    sign    = "-" sign | power                  so that -2 ^ 2 is -4
    power   = atom ("^" sign)?                  so that 2 ^ -1 is allowed
    atom    = number | variable | function "(" sum ("," sum)* ")" | "(" sum ")"

It is read by precedence climbing: an operator takes what binds tighter than itself. Reading recurses no
deeper than DEEPEST, and the program is a flat tuple, so whoever runs it recurses not at all.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

LONGEST = 4096
DEEPEST = 64
FUNCTIONS = ("min", "max", "abs", "floor", "ceil", "exp", "sqrt", "log")
OF_MANY = ("min", "max")
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 4}
NEGATION_BINDING = 3

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/^(),]))"
)


class FormulaError(ValueError):
    """A formula that cannot be read; ``position`` counts its characters from 0."""

    def __init__(self, position: int, message: str) -> None:
        self.position = position
        super().__init__(f"at character {position}: {message}")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: ``push`` a number, ``load`` a variable, or ``call`` what takes ``arity`` values."""

    action: str
    name: str
    arity: int = 0
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Formula:
    """A program in postfix order that leaves one value, and where each variable first stands."""

    steps: tuple[Step, ...]
    variables: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse_formula(text: str) -> Formula:
    """The program that ``text`` is. Raises FormulaError with the position of the fault."""
    if len(text) > LONGEST:
        raise FormulaError(LONGEST, f"a formula has at most {LONGEST} characters")
    reader = _Reader(_tokens(text))
    reader.expression(0, 0)
    if reader.now.kind != "end":
        reader.refuse("an operator or the end")
    return Formula(tuple(reader.steps), reader.variables)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise FormulaError(position, f"{text[position]!r} means nothing here")
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        position = found.end()
    return [*tokens, _Token("end", "", end)]


class _Reader:
    """A walk over the tokens that writes the program as it goes."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.steps: list[Step] = []
        self.variables: dict[str, int] = {}

    @property
    def now(self) -> _Token:
        return self.tokens[self.at]

    def refuse(self, wanted: str) -> NoReturn:
        found = f"'{self.now.text}'" if self.now.text else "the end"
        raise FormulaError(self.now.position, f"{wanted} was expected, not {found}")

    def take(self, sign: str) -> bool:
        """Step over ``sign`` if it stands here."""
        here = self.now.kind == "sign" and self.now.text == sign
        self.at += here
        return here

    def expression(self, least: int, depth: int) -> None:
        """An operand, and every operator after it that binds at least as tightly as ``least``."""
        if depth > DEEPEST:
            raise FormulaError(self.now.position, f"nested deeper than {DEEPEST}")
        if self.take("-"):
            self.expression(NEGATION_BINDING, depth + 1)
            self.steps.append(Step("call", "negate", 1))
        else:
            self.atom(depth)
        while self.now.kind == "sign" and BINDING.get(self.now.text, -1) >= least:
            operator = self.now.text
            self.at += 1
            tighter = NEGATION_BINDING if operator == "^" else BINDING[operator] + 1
            self.expression(tighter, depth + 1)
            self.steps.append(Step("call", operator, 2))

    def atom(self, depth: int) -> None:
        token = self.now
        if self.take("("):
            self.expression(0, depth + 1)
            self.close()
            return
        if token.kind not in {"number", "name"}:
            self.refuse("a number, a variable, a function or '('")
        self.at += 1
        if token.kind == "number":
            self.steps.append(Step("push", token.text, number=float(token.text)))
        elif self.take("("):
            self.call(token, depth)
        else:
            self.variables.setdefault(token.text, token.position)
            self.steps.append(Step("load", token.text))

    def call(self, token: _Token, depth: int) -> None:
        if token.text not in FUNCTIONS:
            raise FormulaError(token.position, f"no function '{token.text}'; known: {FUNCTIONS}")
        arity = 0
        while arity == 0 or self.take(","):
            self.expression(0, depth + 1)
            arity += 1
        if arity > 1 and token.text not in OF_MANY:
            raise FormulaError(token.position, f"'{token.text}' takes one value, not {arity}")
        self.close()
        self.steps.append(Step("call", token.text, arity))

    def close(self) -> None:
        if not self.take(")"):
            self.refuse("')'")
