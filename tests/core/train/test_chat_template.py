"""A chat template of the job's own: what is learnt, what is saved, and what its faults are called."""

import pytest
from transformers import AutoTokenizer

from core.spec.errors import RunFailure

SHORT = "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}\n{% endfor %}"


@pytest.fixture
def spec(make_spec):
    return lambda template: make_spec(trainer={"chat_template": template, "max_steps": 1})


def test_rows_are_written_by_it_and_it_lies_in_the_checkpoint(spec, train):
    own, given = train(spec(None), "own"), train(spec(SHORT), "given")
    (own_file,), (given_file,) = (run.of("started")[0].files for run in (own, given))
    assert given_file.tokens < own_file.tokens
    saved = AutoTokenizer.from_pretrained(given.checkpoint)
    rendered = saved.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    assert rendered == "u:x\n"


@pytest.mark.parametrize("template", ["{% for m in %}", "{{ messages[9].content }}", "{{ x.y.z }}"])
def test_a_template_that_fails_is_named_and_not_the_file(spec, train, template):
    with pytest.raises(RunFailure) as failed:
        train(spec(template), "bad")
    error = failed.value.error
    assert (error.code, error.param) == ("chat_template_error", "trainer.chat_template")


def test_a_template_cannot_leave_its_sandbox(spec, train):
    escape = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(RunFailure, match="unsafe"):
        train(spec(escape), "escape")
