"""A conversation that waits for an answer, as token ids, with what graders may know of it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from core.data.chat import encode_prompt
from core.data.conversation import ChatTokenizer
from core.data.kinds import Prompt
from core.data.overlength import LengthReport, NothingToTrainError, Policy, PromptTooLongError


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt of `input_ids`, to which `answers_tokens` tokens at most are sampled in all."""

    input_ids: list[int]
    answers_tokens: int
    item: dict[str, Any]
    line: int = 0

    def __len__(self) -> int:
        """Count the tokens that go through the model for it, at most."""
        return len(self.input_ids) + self.answers_tokens

    @property
    def lines(self) -> list[int]:
        """Lines of the file that it came from."""
        return [self.line]


def encode_item(
    prompt: Prompt, tokenizer: ChatTokenizer, *, answers_tokens: int, line: int = 0
) -> EncodedPrompt:
    """The conversation up to the opening of the answer. Raises ChatTemplateError."""
    return EncodedPrompt(encode_prompt(prompt.chat, tokenizer), answers_tokens, prompt.item, line)


def fit_prompts(
    prompts: Iterable[EncodedPrompt], room: int, policy: Policy
) -> tuple[list[EncodedPrompt], LengthReport]:
    """Keep prompts of at most `room` tokens, what the context leaves beside an answer of full length.

    `truncate_left` keeps a prompt's last tokens. Raises PromptTooLongError under the policy `error`,
    NothingToTrainError where none is left, ValueError for a policy that would cut off the opening of
    the answer.
    """
    if policy in ("truncate_right", "split"):
        raise ValueError(f"a prompt cannot be shortened by {policy}")
    kept: list[EncodedPrompt] = []
    report = LengthReport()
    for prompt in prompts:
        if len(prompt.input_ids) <= room:
            kept.append(prompt)
        elif policy == "error":
            raise PromptTooLongError(prompt.line, len(prompt.input_ids), room)
        elif policy == "drop" or room < 1:
            report = replace(report, dropped=report.dropped + 1)
        else:
            kept.append(replace(prompt, input_ids=prompt.input_ids[-room:]))
            report = replace(report, truncated=report.truncated + 1)
    if not kept:
        raise NothingToTrainError(report, room)
    tokens = [len(prompt.input_ids) for prompt in kept]
    return kept, replace(report, kept=len(kept), tokens=sum(tokens), longest=max(tokens))
