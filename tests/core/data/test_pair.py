"""Both answers of a pair follow the very same tokens, end with their end of turn, and fit the context."""

import pytest

from core.data.chat import encode_prompt
from core.data.conversation import ChatTemplateError
from core.data.kinds import Preference
from core.data.overlength import NothingToTrainError, OverlengthError
from core.data.pair import Answer, EncodedPair, encode_pair, fit_pairs
from core.data.rows import ChatRow


def preference(chosen, rejected, prompt=("user: hi",)):
    """Turns as "role: content"; "assistant0" has weight 0."""

    def messages(turns):
        found = []
        for turn in turns:
            role, content = turn.split(": ", 1)
            extra = {"weight": 0} if role.endswith("0") else {}
            extra |= {"tool_call_id": "1"} if role == "tool" else {}
            found.append({"role": role.rstrip("0"), "content": content, **extra})
        return ChatRow.model_validate({"messages": found}).messages

    row = ChatRow(messages=messages(prompt))
    return Preference(row, tuple(messages(chosen)), tuple(messages(rejected)))


def scored_text(answer, tokenizer):
    ids = [i for i, scored in zip(answer.input_ids, answer.scored, strict=True) if scored]
    return tokenizer.decode(ids)


PLAIN = preference(["assistant: yes"], ["assistant: no, never"])


def test_the_answers_are_what_the_conversation_gains_up_to_the_end_of_turn(make_tokenizer):
    tokenizer = make_tokenizer()
    pair = encode_pair(PLAIN, tokenizer, line=7)
    assert pair.prompt_ids == encode_prompt(PLAIN.prompt, tokenizer)
    assert tokenizer.decode(pair.chosen.input_ids) == "yes<|im_end|>"
    assert tokenizer.decode(pair.rejected.input_ids) == "no, never<|im_end|>"
    assert all(pair.chosen.scored + pair.rejected.scored)
    assert (len(pair), pair.targets, pair.lines) == (
        len(pair.prompt_ids) + pair.targets,
        len("yes") + len("no, never") + 2,
        [7],
    )


@pytest.mark.parametrize("prints_bos", [True, False])
def test_a_prompt_begins_with_exactly_one_bos(make_tokenizer, prints_bos):
    # Public reports trl#1400, OpenRLHF#393: template and tokenizer each put one.
    template = "<s>" * prints_bos + make_tokenizer().chat_template
    tokenizer = make_tokenizer(template, prepends_bos=True)
    pair = encode_pair(PLAIN, tokenizer)
    bos = tokenizer.bos_token_id
    assert pair.prompt_ids[0] == bos
    assert all(branch.input_ids.count(bos) == 1 for branch in pair.branches)


def test_what_a_tool_says_in_an_answer_is_context(make_tokenizer):
    tokenizer = make_tokenizer()
    turns = ["assistant: look", "tool: 42", "assistant: it is 42"]
    pair = encode_pair(preference(turns, ["assistant: dunno"]), tokenizer)
    assert scored_text(pair.chosen, tokenizer) == "look<|im_end|>it is 42<|im_end|>"
    assert "tool\n42" in tokenizer.decode(pair.chosen.input_ids)
    assert tokenizer.decode(pair.chosen.input_ids).endswith("it is 42<|im_end|>")


def test_a_message_of_weight_zero_in_an_answer_is_context(make_tokenizer):
    tokenizer = make_tokenizer()
    turns = ["assistant0: well", "assistant: yes"]
    pair = encode_pair(preference(turns, ["assistant: no"]), tokenizer)
    assert scored_text(pair.chosen, tokenizer) == "yes<|im_end|>"


def test_a_prompt_that_is_no_prefix_of_an_answer_s_conversation_is_refused(make_tokenizer):
    template = (
        make_tokenizer().chat_template.replace("{{ m['content'] }}", "{{ m['content'] | trim }}")
        + "{% if add_generation_prompt %} {% endif %}"
    )
    with pytest.raises(ChatTemplateError, match=r"line 3: .*prefix"):
        encode_pair(PLAIN, make_tokenizer(template), line=3)


def test_the_same_is_refused_for_tokens_that_merge_across_the_boundary(make_tokenizer):
    tokenizer = make_tokenizer(merges=[("Ċ", "y")])
    with pytest.raises(ChatTemplateError, match="prefix"):
        encode_pair(PLAIN, tokenizer)


def made(prompt, chosen, rejected, line=0):
    """Ids that tell where they came from: 100s, 200s and 300s."""
    answers = (
        Answer([s + i for i in range(n)], [True] * n) for s, n in ((200, chosen), (300, rejected))
    )
    return EncodedPair([100 + i for i in range(prompt)], *answers, line)


def test_a_long_prompt_is_shortened_from_the_left_for_both_answers_alike():
    # Public report trl#2209: the limit is 10, the prompt has 8 tokens, an answer 4.
    (pair,), report = fit_pairs([made(8, 4, 2)], 10, "truncate_left")
    assert pair.prompt_ids == [102, 103, 104, 105, 106, 107]
    assert pair.answers == made(8, 4, 2).answers
    assert (report.kept, report.truncated, report.tokens, report.targets) == (1, 1, 12, 6)


def test_every_branch_that_is_kept_fits_and_every_pair_is_counted():
    pairs = [made(3, 4, 2), made(8, 4, 2), made(2, 10, 1), made(10, 1, 1), made(12, 1, 2)]
    counts = {}
    for policy in ("drop", "truncate_left", "truncate_right"):
        kept, report = fit_pairs(pairs, 10, policy)
        assert all(len(b) <= 10 for pair in kept for b in pair.branches)
        assert all(pair.prompt_ids and all(map(len, pair.answers)) for pair in kept)
        assert report.kept + report.dropped + report.without_target == len(pairs)
        counts[policy] = (report.kept, report.dropped, report.truncated)
    assert counts == {
        "drop": (1, 4, 0),
        "truncate_left": (4, 1, 3),
        "truncate_right": (3, 2, 2),
    }


def test_answers_are_cut_to_what_the_prompt_leaves():
    (pair,), _ = fit_pairs([made(7, 4, 2)], 10, "truncate_right")
    assert (pair.prompt_ids, pair.chosen.input_ids, pair.rejected.input_ids) == (
        list(range(100, 107)),
        [200, 201, 202],
        [300, 301],
    )


def test_pairs_that_the_cut_made_equal_or_left_unscored_teach_nothing():
    same = EncodedPair([1] * 6, Answer([2, 3], [True] * 2), Answer([2, 4], [True] * 2))
    mute = EncodedPair([1] * 6, Answer([2, 3], [False, True]), Answer([5, 4], [True] * 2))
    kept, report = fit_pairs([same, mute, made(1, 1, 1)], 7, "truncate_right")
    assert kept == [made(1, 1, 1)]
    assert (report.truncated, report.without_target) == (2, 2)


def test_the_error_names_line_branch_and_remedy():
    with pytest.raises(OverlengthError, match=r"line 4 has 12 tokens, .* 10\. .*or truncate_right"):
        fit_pairs([made(8, 2, 4, line=4)], 10, "error")


def test_a_file_of_which_no_pair_is_left_is_refused():
    with pytest.raises(NothingToTrainError, match="1 dropped"):
        fit_pairs([made(8, 2, 4)], 10, "drop")
