"""A chat template that Jinja cannot read is told with its line, and none is run."""

import time

import pytest

from core.data.template_syntax import syntax_problem


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m['content'] | trim }}{% endfor %}",
        "{% for m in messages %}{% if m.x is defined %}{% continue %}{% endif %}{% endfor %}",
        "{% generation %}{{ messages[0].content | tojson }}{% endgeneration %}",
        "{{ raise_exception('no') }}{{ strftime_now('%d') }}{{ messages[9].content }}",
        "{% set ns = namespace(last=0) %}{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1) }}",
        "no words of Jinja at all",
    ],
)
def test_what_transformers_reads_is_read(template):
    assert syntax_problem(template) is None


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in %}", "line 1: "),
        ("\n{{ x", "line 2: "),
        ("{% if x %}", "line 1: "),
        ("{{ x | shout }}", "line 1: there is no filter 'shout'"),
        ("{% if x is loud %}{% endif %}", "line 1: there is no test 'loud'"),
        ("{% generation %}", "line 1: "),
        ("{{ " + "(" * 30_000, "it is nested too deep"),
    ],
    ids=["for", "open", "if", "filter", "test", "generation", "deep"],
)
def test_what_cannot_be_read_is_told(template, said):
    problem = syntax_problem(template)
    assert problem is not None
    assert problem.startswith(said)


def test_nothing_is_computed():
    began = time.process_time()
    assert (
        syntax_problem("{{ 9 ** 9 ** 9 }}{{ 'a' * 10 ** 12 }}{{ 'a' | center(10 ** 12) }}") is None
    )
    assert time.process_time() - began < 5
