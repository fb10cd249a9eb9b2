"""What an answer is worth, in OpenAI's vocabulary: graders by their ``type``."""

from typing import Literal

from pydantic import Field

from core.spec.tree import Spec


class StringCheckGrader(Spec):
    """1 if ``input`` and ``reference`` compare as ``operation`` says, else 0."""

    type: Literal["string_check"] = "string_check"
    name: str = Field("string_check", min_length=1, max_length=256)
    input: str = Field(max_length=2**18, description="A template, as {{ sample.output_text }}.")
    reference: str = Field(max_length=2**18, description="A template, as {{ item.answer }}.")
    operation: Literal["eq", "ne", "like", "ilike"]


GraderSpec = StringCheckGrader
