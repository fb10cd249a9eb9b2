"""Whether a chat template can be read at all, told before a worker is found for it.

It is only parsed. To compile one would compute its constants, and `{{ 9 ** 9 ** 9 }}` is one.
"""

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class _Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}`, transformers' own: what is between is the assistant's."""

    tags = frozenset({"generation"})  # type: ignore[assignment]  # Jinja's own is a set, and only read

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


_ENVIRONMENT = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
)


def syntax_problem(template: str) -> str | None:
    """What keeps Jinja from reading ``template``, with its line; None: it can be read."""
    try:
        parsed = _ENVIRONMENT.parse(template)
    except TemplateSyntaxError as error:
        return f"line {error.lineno}: {error.message}"
    except RecursionError:
        return "it is nested too deep"
    for kind, known in ((nodes.Filter, _ENVIRONMENT.filters), (nodes.Test, _ENVIRONMENT.tests)):
        for node in parsed.find_all(kind):
            if node.name not in known:
                return f"line {node.lineno}: there is no {kind.__name__.lower()} '{node.name}'"
    return None
