"""A chat row into token ids, with the assistant's tokens marked as targets.

The one idea: the model's own chat template says where a turn begins and ends, so the marks come
from the template and are proven, never searched for in the text. Either the template brackets
what the assistant generates (`{% generation %}`), or the turn is what the conversation gains:

    turn i = ids(messages[:i+1]) - ids(messages[:i] + generation prompt),

which holds only if each is a prefix of the next, token for token; that is checked for every row.
A turn reaches to its end-of-turn token, which is a target: a model that is not taught to stop
does not. What the template prints after it cannot be sampled and is not trained.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from core.data.conversation import ChatTokenizer, Conversation
from core.data.encoded import Encoded
from core.data.rows import AssistantMessage, ChatRow

TrainOn = Literal["assistant", "all"]
Span = tuple[int, int]

_GENERATION = re.compile(r"\{%[-+]?\s*generation\b")


def encode_chat(
    row: ChatRow, tokenizer: ChatTokenizer, *, train_on: TrainOn = "assistant", line: int = 0
) -> Encoded:
    """Token ids of a row and the marks of what is trained.

    `train_on="assistant"` trains the assistant's turns, `"all"` every token; in both a message of
    weight 0 is left out. The row begins with one beginning-of-sequence token if the template or
    the tokenizer puts one there. Raises ChatTemplateError naming `line`.
    """
    chat = Conversation.of(row, tokenizer, line)
    ids = chat.ids(len(chat.messages))
    assistants = {i: m for i, m in enumerate(row.messages) if isinstance(m, AssistantMessage)}
    left_in = train_on == "all"
    marked = [i for i, message in assistants.items() if message.trained != left_in]
    trained = [left_in] * len(ids)
    for start, end in turn_spans(chat, ids, marked, list(assistants)):
        trained[start:end] = [not left_in] * (end - start)
    if trained:
        trained[0] = False
    return Encoded(ids, trained, line)


def encode_prompt(row: ChatRow, tokenizer: ChatTokenizer) -> list[int]:
    """Token ids of the whole conversation and the opening of an answer, for sampling.

    They are what an answer follows in training: one path makes both.
    """
    chat = Conversation.of(row, tokenizer, 0)
    return chat.ids(len(chat.messages), generation_prompt=True)


def turn_spans(
    chat: Conversation, ids: list[int], wanted: list[int], assistants: list[int]
) -> list[Span]:
    """Where in `ids` the turns of the messages `wanted` (some of `assistants`) stand."""
    if not wanted:
        return []
    if _GENERATION.search(chat.template):
        return _marked_spans(chat, ids, wanted, assistants)
    return [_gained_span(chat, ids, i) for i in wanted]


def _marked_spans(
    chat: Conversation, ids: list[int], wanted: list[int], assistants: list[int]
) -> list[Span]:
    mask = chat.apply(len(chat.messages), return_assistant_tokens_mask=True)["assistant_masks"]
    shift = len(ids) - len(mask)
    spans = [(start + shift, end + shift) for start, end in runs(mask)]
    if not spans:
        raise chat.error(
            "the chat template marks what is generated, but marks nothing in this row",
            "Correct where the template puts {% generation %}.",
        )
    # Some templates close the mark before the token that ends the turn.
    eos = [chat.tokenizer.eos_token_id]
    spans = [(start, end + (ids[end : end + 1] == eos)) for start, end in spans]
    if wanted == assistants:
        return spans
    if len(spans) != len(assistants):
        raise chat.error(
            f"the chat template marks {len(spans)} turns and the row has {len(assistants)} "
            "assistant messages, so their weights cannot be told apart",
            "Use one {% generation %} block per assistant message, or no weights.",
        )
    return [spans[assistants.index(i)] for i in wanted]


def _gained_span(chat: Conversation, ids: list[int], i: int) -> Span:
    if i == 0:
        raise chat.error(
            "the row begins with an assistant message, so nothing shows where its turn starts",
            "Put a system or user message first, or give that message the weight 0.",
        )
    prompt = chat.ids(i, generation_prompt=True)
    turn = chat.ids(i + 1)
    if turn[: len(prompt)] != prompt or ids[: len(turn)] != turn:
        raise chat.error(
            f"the tokens before or in the answer of message {i} are not a prefix of the whole "
            "row's, so what the assistant says cannot be told from its prompt",
            "Trim white space at the start of the answer, make a row of each answer, or use a "
            "chat template with {% generation %} marks.",
        )
    return len(prompt), turn_end(turn, len(prompt), chat.tokenizer.eos_token_id)


def turn_end(ids: list[int], start: int, eos: int | None) -> int:
    """Where in `ids` the turn that begins at `start` ends: after the last `eos`, or with `ids`."""
    gained = ids[start:]
    after_eos = gained[::-1].index(eos) if eos in gained else 0
    return len(ids) - after_eos


def runs(mask: Sequence[int]) -> list[Span]:
    """Return the stretches of non-zero entries, each as (start, end)."""
    spans: list[Span] = []
    place = 0
    for marked, group in groupby(mask, bool):
        end = place + len(list(group))
        if marked:
            spans.append((place, end))
        place = end
    return spans
