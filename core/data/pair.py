"""A preference as the model sees it: a prompt, and two answers of which the first is the better.

The one idea: both answers follow the very same tokens. The prompt is the conversation with the opening
of an answer, as it is for sampling, and each answer is what its conversation gains on it,

    answer = ids(prompt + messages) - ids(prompt + generation prompt),

proven to be a prefix, token for token, for every row. An answer reaches to its end-of-turn token, which
is scored: a model that prefers never to stop has learnt the wrong thing. What tools say in an answer is
context: the model does not say it, so it is not scored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from core.data.branches import Answer, whole_rows
from core.data.chat import turn_end, turn_spans
from core.data.conversation import ChatTokenizer, Conversation
from core.data.encoded import Encoded
from core.data.kinds import Preference
from core.data.overlength import MIN_CONTEXT, LengthReport, NothingToTrainError, OverlengthError
from core.data.rows import AssistantMessage, ChatRow, Message

PairPolicy = Literal["error", "drop", "truncate_left", "truncate_right"]
_CUTS = "drop, truncate_left or truncate_right"


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """One row of preferences; ``line``: where in the file it came from (0: none)."""

    prompt_ids: list[int]
    chosen: Answer
    rejected: Answer
    line: int = 0

    def __len__(self) -> int:
        """Tokens of all three: the prompt counts once."""
        return len(self.prompt_ids) + len(self.chosen) + len(self.rejected)

    @property
    def answers(self) -> tuple[Answer, Answer]:
        """The chosen and the rejected."""
        return self.chosen, self.rejected

    @property
    def branches(self) -> list[Encoded]:
        """The prompt with the chosen answer, and with the rejected: rows that stand alone."""
        return whole_rows(self, self.line)

    @property
    def targets(self) -> int:
        """How many tokens are scored."""
        return sum(self.chosen.scored) + sum(self.rejected.scored)

    @property
    def lines(self) -> list[int]:
        """Lines of the file that it came from."""
        return [self.line]


def encode_pair(preference: Preference, tokenizer: ChatTokenizer, line: int = 0) -> EncodedPair:
    """Token ids of a prompt and of its two answers.

    The prompt begins with one beginning-of-sequence token if the template or the tokenizer puts one
    there. Messages of weight 0 in an answer are not scored. Raises ChatTemplateError naming ``line``.
    """
    row = preference.prompt
    prompt = Conversation.of(row, tokenizer, line).ids(len(row.messages), generation_prompt=True)
    chosen = _answer(row, preference.chosen, prompt, tokenizer, line)
    rejected = _answer(row, preference.rejected, prompt, tokenizer, line)
    return EncodedPair(prompt, chosen, rejected, line)


def fit_pairs(
    pairs: Iterable[EncodedPair], context_length: int, policy: PairPolicy
) -> tuple[list[EncodedPair], LengthReport]:
    """The pairs to train on, and the counts; each branch has at most ``context_length`` tokens.

    A branch is the prompt with one of the answers. Where one is too long:

    - ``error``: OverlengthError;
    - ``drop``: the pair is dropped and counted;
    - ``truncate_left``: the prompt loses its first tokens, the same for both answers, which are kept
      whole; a pair of which an answer alone leaves no room for a token of the prompt is dropped;
    - ``truncate_right``: the prompt is kept and the answers lose their last tokens; a pair whose prompt
      leaves no room is dropped.

    A pair of which an answer has nothing scored, or whose answers the cut made equal, teaches nothing:
    it counts as without target. Raises NothingToTrainError when no pair is left.
    """
    if context_length < MIN_CONTEXT:
        raise ValueError(f"context_length is {context_length}; the least is {MIN_CONTEXT}")
    kept: list[EncodedPair] = []
    report = LengthReport()
    for whole in pairs:
        pair: EncodedPair | None = whole
        if max(map(len, whole.branches)) > context_length:
            pair = shorten_pair(whole, context_length, policy)
            report = _with_long(report, pair)
        if pair is None:
            continue
        if _teaches(pair):
            kept.append(pair)
            report = report.with_kept(pair)
        else:
            report = replace(report, without_target=report.without_target + 1)
    if not kept:
        raise NothingToTrainError(report, context_length)
    return kept, report


def shorten_pair(pair: EncodedPair, context_length: int, policy: PairPolicy) -> EncodedPair | None:
    """Cut a pair that is too long by the policy; None where it is to be dropped."""
    match policy:
        case "error":
            raise OverlengthError(max(pair.branches, key=len), context_length, _CUTS)
        case "drop":
            return None
        case "truncate_left":
            room = context_length - max(map(len, pair.answers))
            return replace(pair, prompt_ids=pair.prompt_ids[-room:]) if room > 0 else None
        case "truncate_right":
            room = context_length - len(pair.prompt_ids)
            chosen, rejected = (answer.first(room) for answer in pair.answers)
            return replace(pair, chosen=chosen, rejected=rejected) if room > 0 else None
        case _:
            assert_never(policy)


def _answer(
    row: ChatRow,
    messages: Sequence[Message],
    prompt: list[int],
    tokenizer: ChatTokenizer,
    line: int,
) -> Answer:
    whole = row.model_copy(update={"messages": [*row.messages, *messages]})
    chat = Conversation.of(whole, tokenizer, line)
    ids = chat.ids(len(whole.messages))
    if ids[: len(prompt)] != prompt:
        raise chat.error(
            "the tokens of the prompt are not a prefix of those of an answer's conversation, so what "
            "the assistant says cannot be told from its prompt",
            "End the prompt with a message that the assistant answers, trim white space at the start "
            "of the answers, or use a chat template that renders a prompt alike with and without one.",
        )
    spans = [(len(prompt), turn_end(ids, len(prompt), tokenizer.eos_token_id))]
    if len(messages) > 1 or not _is_said(messages[0]):
        spans = _said_spans(chat, ids, whole.messages, len(row.messages))
    scored = [False] * len(ids)
    for start, end in spans:
        scored[start:end] = [True] * (end - start)
    end = max((end for _, end in spans), default=len(ids))
    return Answer(ids[len(prompt) : end], scored[len(prompt) : end])


def _said_spans(
    chat: Conversation, ids: list[int], messages: Sequence[Message], first: int
) -> list[tuple[int, int]]:
    """Where the assistant speaks, from message ``first`` on."""
    assistants = [i for i, said in enumerate(messages) if isinstance(said, AssistantMessage)]
    wanted = [i for i in assistants if i >= first and _is_said(messages[i])]
    return turn_spans(chat, ids, wanted, assistants)


def _is_said(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.trained


def _with_long(report: LengthReport, cut: EncodedPair | None) -> LengthReport:
    if cut is None:
        return replace(report, dropped=report.dropped + 1)
    return replace(report, truncated=report.truncated + 1)


def _teaches(pair: EncodedPair) -> bool:
    return all(any(answer.scored) for answer in pair.answers) and pair.chosen != pair.rejected
