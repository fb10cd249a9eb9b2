from core.data.chat import encode_chat
from core.data.rows import ChatRow
from core.data.turns import template_messages, template_tools

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
SCHEMA = {"name": "f", "parameters": {"type": "object"}}


def row(*messages, **more):
    return ChatRow.model_validate({"messages": list(messages), **more})


def turns(*messages, template=""):
    return template_messages(row(*messages).messages, template)


def test_the_developer_is_the_system_unless_the_template_knows_him():
    message = {"role": "developer", "content": "x"}
    assert turns(message)[0]["role"] == "system"
    assert turns(message, template="m.role == 'developer'")[0]["role"] == "developer"


def test_typed_parts_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert turns({"role": "user", "content": parts}) == [{"role": "user", "content": "ab"}]


def test_a_refusal_is_what_the_assistant_says():
    refused = {"role": "assistant", "content": None, "refusal": "no"}
    assert turns(refused) == [{"role": "assistant", "content": "no"}]
    part = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert turns(part) == turns(refused)


def test_tool_arguments_are_parsed_for_the_template():
    call = turns({"role": "assistant", "content": None, "tool_calls": [CALL]})[0]
    assert call["content"] == ""
    assert call["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}


def test_the_deprecated_forms_become_tools():
    old = row(
        {"role": "user", "content": "q"},
        {"role": "assistant", "function_call": CALL["function"]},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "content": "a"},
        functions=[SCHEMA],
    )
    new = template_messages(old.messages, "")
    assert new[1]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    assert new[2] == {"role": "tool", "content": "1", "name": "f"}
    assert template_tools(old) == [{"type": "function", "function": SCHEMA}]


def test_a_row_without_tools_gives_the_template_none():
    assert template_tools(row({"role": "user", "content": "q"})) is None


def test_tools_and_parallel_tool_calls_reach_the_template(make_tokenizer):
    tokenizer = make_tokenizer(
        "{{ tools[0].function.name }}|{{ parallel_tool_calls }}|"
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
    )
    with_tools = row(
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [CALL]},
        tools=[{"type": "function", "function": SCHEMA}],
        parallel_tool_calls=False,
    )
    encoded = encode_chat(with_tools, tokenizer)
    assert tokenizer.decode(encoded.input_ids) == 'f|False|{"x": 1}'
