import pytest

from core.data.chat import encode_chat, encode_prompt
from core.data.conversation import ChatTemplateError
from core.data.rows import ChatRow

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'] }}<|im_end|>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = CHATML.replace(
    "{{ m['content'] }}<|im_end|>",
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}<|im_end|>"
    "{% endgeneration %}{% else %}{{ m['content'] }}<|im_end|>{% endif %}",
)
MARKED_BEFORE_END = MARKED.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
BOTH = pytest.mark.parametrize("template", [CHATML, MARKED, MARKED_BEFORE_END])


def row(*turns):
    """Turns as "role: content"; "assistant0" has weight 0."""
    messages = []
    for turn in turns:
        role, content = turn.split(": ", 1)
        weight = {"weight": 0} if role.endswith("0") else {}
        messages.append({"role": role.rstrip("0"), "content": content, **weight})
    return ChatRow.model_validate({"messages": messages})


def trained_text(encoded, tokenizer):
    """The text of each stretch of trained tokens."""
    parts, last = [], False
    for token, trained in zip(encoded.input_ids, encoded.trained, strict=True):
        if trained:
            text = tokenizer.decode([token])
            parts = [*parts[:-1], parts[-1] + text] if last else [*parts, text]
        last = trained
    return parts


TWO_TURNS = row("user: hi", "assistant: ho", "user: more", "assistant: less")


@BOTH
def test_each_answer_is_trained_up_to_its_end_of_turn(make_tokenizer, template):
    tokenizer = make_tokenizer(template)
    encoded = encode_chat(TWO_TURNS, tokenizer)
    assert trained_text(encoded, tokenizer) == ["ho<|im_end|>", "less<|im_end|>"]
    assert tokenizer.decode(encoded.input_ids).endswith("assistant\nless<|im_end|>\n")


@BOTH
def test_a_message_of_weight_zero_is_context_only(make_tokenizer, template):
    tokenizer = make_tokenizer(template)
    weighted = row("user: hi", "assistant0: ho", "user: more", "assistant: less")
    encoded = encode_chat(weighted, tokenizer)
    assert trained_text(encoded, tokenizer) == ["less<|im_end|>"]
    assert encoded.input_ids == encode_chat(TWO_TURNS, tokenizer).input_ids


@BOTH
def test_train_on_all_trains_everything_but_weight_zero(make_tokenizer, template):
    tokenizer = make_tokenizer(template)
    encoded = encode_chat(TWO_TURNS, tokenizer, train_on="all")
    assert encoded.trained == [False] + [True] * (len(encoded) - 1)
    weighted = row("user: hi", "assistant0: ho", "user: more", "assistant: less")
    left_out = encode_chat(weighted, tokenizer, train_on="all")
    assert left_out.targets == encoded.targets - 3
    assert "ho" not in "".join(trained_text(left_out, tokenizer))


@pytest.mark.parametrize("prepends", [False, True])
@pytest.mark.parametrize("prints", [False, True])
@BOTH
def test_one_beginning_of_sequence_token_at_most(make_tokenizer, template, prints, prepends):
    # Public reports trl#1400, OpenRLHF#393, open-r1#462: the template prints it, so does the other.
    tokenizer = make_tokenizer("{{ bos_token }}" * prints + template, prepends_bos=prepends)
    encoded = encode_chat(TWO_TURNS, tokenizer)
    wanted = 1 if prints or prepends else 0
    assert encoded.input_ids.count(0) == wanted
    assert encoded.input_ids[:wanted] == [0] * wanted
    assert trained_text(encoded, tokenizer) == ["ho<|im_end|>", "less<|im_end|>"]
    prompt = encode_prompt(row("user: hi"), tokenizer)
    assert encoded.input_ids[: len(prompt)] == prompt


def test_sampling_follows_the_tokens_that_training_saw(make_tokenizer):
    tokenizer = make_tokenizer()
    prompt = encode_prompt(row("system: be kind", "user: hi"), tokenizer)
    encoded = encode_chat(row("system: be kind", "user: hi", "assistant: ho"), tokenizer)
    assert encoded.input_ids[: len(prompt)] == prompt
    assert encoded.trained.index(True) == len(prompt)


def test_a_bos_that_opens_every_turn_is_left_alone(make_tokenizer):
    # SmolLM2's beginning-of-sequence token is the token that opens each ChatML turn.
    tokenizer = make_tokenizer()
    tokenizer.bos_token = "<|im_start|>"
    encoded = encode_chat(TWO_TURNS, tokenizer)
    assert encoded.input_ids.count(tokenizer.bos_token_id) == 4


def test_a_merge_across_the_start_of_an_answer_is_refused(make_tokenizer):
    tokenizer = make_tokenizer(merges=[("Ċ", "Ċ")])
    encode_chat(row("user: hi", "assistant: \\nho"), tokenizer)
    with pytest.raises(ChatTemplateError, match=r"line 7: .* message 1 .* prefix .*\. Trim white"):
        encode_chat(row("user: hi", "assistant: \nho"), tokenizer, line=7)


def test_a_template_that_rewrites_earlier_turns_is_refused(make_tokenizer):
    rewriting = CHATML.replace("{{ m['content'] }}", "{{ m['content'] if loop.last else '...' }}")
    tokenizer = make_tokenizer(rewriting)
    assert encode_chat(row("user: hi", "assistant0: a", "user: ..."), tokenizer).targets == 0
    with pytest.raises(ChatTemplateError, match="prefix"):
        encode_chat(TWO_TURNS, tokenizer)


def test_a_template_that_marks_nothing_is_refused(make_tokenizer):
    never = CHATML + "{% if false %}{% generation %}{% endgeneration %}{% endif %}"
    with pytest.raises(ChatTemplateError, match="marks nothing"):
        encode_chat(TWO_TURNS, make_tokenizer(never))


def test_a_row_that_opens_with_the_assistant_needs_something_before_it(make_tokenizer):
    tokenizer = make_tokenizer()
    with pytest.raises(ChatTemplateError, match="begins with an assistant"):
        encode_chat(row("assistant: hello"), tokenizer)
    later = encode_chat(row("assistant0: hello", "user: hi", "assistant: ho"), tokenizer)
    assert trained_text(later, tokenizer) == ["ho<|im_end|>"]


def test_a_tokenizer_without_a_template_says_what_to_do(make_tokenizer):
    with pytest.raises(ChatTemplateError, match=r"no chat template.*give trainer\.chat_template"):
        encode_chat(TWO_TURNS, make_tokenizer(None))


def test_a_template_that_refuses_the_row_names_the_line(make_tokenizer):
    picky = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(ChatTemplateError, match=r"line 3: .*roles must alternate"):
        encode_chat(TWO_TURNS, make_tokenizer(picky), line=3)
