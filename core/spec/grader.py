"""What an answer is worth, in OpenAI's vocabulary: graders by their ``type``, and two of ours.

Everything that is wrong with a grader on paper is refused here: a template or a formula that cannot be read,
a variable that no grader stands behind. What needs a library or a sandbox to tell is asked in core.graders.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from core.spec.formula import LONGEST as LONGEST_FORMULA
from core.spec.formula import parse_formula
from core.spec.problems import problems_of
from core.spec.template import Reference, parse_template
from core.spec.tree import Spec, SpecError

LONGEST_SOURCE_BYTES = 256_000
JUDGES = ("score_model", "label_model")
LEFT_OUT_METRICS = {
    "cosine": "cosine needs an embedding model, and OpenAI does not offer it for training either",
    "meteor": "meteor needs WordNet's data, which no package brings",
}


def _readable(text: str) -> str:
    parse_template(text)
    return text


def _one_reference(text: str) -> str:
    parts = parse_template(text)
    if len(parts) != 1 or not isinstance(parts[0], Reference):
        raise ValueError("is to be one reference and nothing else, as {{ item.entry }}")
    return text


TemplateText = Annotated[str, Field(max_length=2**18), AfterValidator(_readable)]
Name = Annotated[
    str, Field(min_length=1, max_length=256, description="What it is called in results.")
]


class StringCheckGrader(Spec):
    """1 if ``input`` and ``reference`` compare as ``operation`` says, else 0."""

    type: Literal["string_check"] = "string_check"
    name: Name = "string_check"
    input: TemplateText = Field(description="A template, as {{ sample.output_text }}.")
    reference: TemplateText = Field(description="A template, as {{ item.answer }}.")
    operation: Literal["eq", "ne", "like", "ilike"] = Field(
        description="eq, ne: equal or not; like: input contains reference; ilike: in any case. "
        "neq is read as ne."
    )

    @field_validator("operation", mode="before")
    @classmethod
    def _alias(cls, operation: Any) -> Any:
        return "ne" if operation == "neq" else operation


class TextSimilarityGrader(Spec):
    """How alike ``input`` and ``reference`` are, from 0 to 1."""

    type: Literal["text_similarity"] = "text_similarity"
    name: Name = "text_similarity"
    input: TemplateText = Field(description="A template, as {{ sample.output_text }}.")
    reference: TemplateText = Field(description="A template, as {{ item.answer }}.")
    evaluation_metric: Literal[
        "fuzzy_match",
        "bleu",
        "gleu",
        "rouge_1",
        "rouge_2",
        "rouge_3",
        "rouge_4",
        "rouge_5",
        "rouge_l",
    ] = Field(description="cosine and meteor are refused: they need a model, or data, beside them.")
    pass_threshold: float | None = Field(
        None, ge=0.0, le=1.0, description="If given, the reward is 1 from this likeness on, else 0."
    )

    @field_validator("evaluation_metric", mode="before")
    @classmethod
    def _reason(cls, metric: Any) -> Any:
        if isinstance(metric, str) and metric in LEFT_OUT_METRICS:
            raise ValueError(LEFT_OUT_METRICS[metric])
        return metric


class PythonGrader(Spec):
    """What ``grade(sample, item)`` of ``source`` returns, run in a sandbox without a network."""

    type: Literal["python"] = "python"
    name: Name = "python"
    source: str = Field(
        min_length=1,
        max_length=LONGEST_SOURCE_BYTES,
        description="Python that defines grade(sample, item) -> float.",
    )
    image_tag: None = Field(None, description="Only null: the sandbox has one image, this Python.")

    @field_validator("source")
    @classmethod
    def _short_enough(cls, source: str) -> str:
        size = len(source.encode(errors="surrogatepass"))
        if size > LONGEST_SOURCE_BYTES:
            raise ValueError(f"has {size} bytes; at most {LONGEST_SOURCE_BYTES} are run")
        return source

    @field_validator("image_tag", mode="before")
    @classmethod
    def _one_image(cls, tag: Any) -> Any:
        if tag is not None:
            raise ValueError("there is one image, this Python and its packages; leave it out")
        return tag


class MathGrader(Spec):
    """1 if the answer in ``input`` is the same quantity as ``reference``, else 0 (math-verify)."""

    type: Literal["math"] = "math"
    name: Name = "math"
    input: TemplateText = Field(
        "{{ sample.output_text }}", description="A template; the last answer in it counts."
    )
    reference: TemplateText = Field(
        description="A template, as {{ item.answer }}: LaTeX or plain numbers."
    )


class ReasoningGymGrader(Spec):
    """What the task of reasoning-gym that made the row says an answer to it is worth, from 0 to 1."""

    type: Literal["reasoning_gym"] = "reasoning_gym"
    name: Name = "reasoning_gym"
    dataset: str = Field(
        min_length=1, max_length=256, description="The task's name, as leg_counting."
    )
    input: TemplateText = Field(
        "{{ sample.output_text }}",
        description="A template; what its last `<answer>` tags hold counts, or all of it.",
    )
    entry: Annotated[str, Field(max_length=1024), AfterValidator(_one_reference)] = Field(
        "{{ item }}", description="Where the task's entry (question, answer, metadata) stands."
    )


Part = Annotated[
    StringCheckGrader | TextSimilarityGrader | PythonGrader | MathGrader | ReasoningGymGrader,
    Field(discriminator="type"),
]


def _refuse_left_out(grader: Any) -> Any:
    kind = grader.get("type") if isinstance(grader, dict) else None
    if isinstance(kind, str) and kind in JUDGES:
        raise ValueError(f"type '{kind}' is not offered: no judge model runs here")
    return grader


def _refuse_nesting(grader: Any) -> Any:
    if isinstance(grader, dict) and grader.get("type") == "multi":
        raise ValueError("a multi grader holds no multi grader")
    return _refuse_left_out(grader)


Member = Annotated[Part, BeforeValidator(_refuse_nesting)]


def _shape(graders: Any) -> str:
    if isinstance(graders, list):
        return "in_a_list"
    single = not isinstance(graders, dict) or isinstance(graders.get("type"), str)
    return "single" if single else "by_variable"


Members = Annotated[
    Annotated[Member, Tag("single")]
    | Annotated[list[Member], Tag("in_a_list"), Field(min_length=1, max_length=32)]
    | Annotated[dict[str, Member], Tag("by_variable"), Field(min_length=1, max_length=32)],
    Discriminator(_shape),
]


def _by_variable(graders: Members) -> dict[str, Part]:
    if isinstance(graders, dict):
        return graders
    members = graders if isinstance(graders, list) else [graders]
    return {member.name: member for member in members}


class MultiGrader(Spec):
    """A formula over the rewards of other graders."""

    type: Literal["multi"] = "multi"
    name: Name = "multi"
    graders: Members = Field(
        description="An object by variable, a list, or a single grader; the last two go by `name`."
    )
    calculate_output: str = Field(
        max_length=LONGEST_FORMULA, description="As 0.9 * correct + 0.1 * min(length, 1)."
    )

    def by_variable(self) -> dict[str, Part]:
        """The graders by the names that the formula calls them."""
        return _by_variable(self.graders)

    @field_validator("graders")
    @classmethod
    def _names_differ(cls, graders: Members) -> Members:
        if isinstance(graders, list) and len({member.name for member in graders}) < len(graders):
            raise ValueError("two of one name: in a list each needs a `name` of its own")
        return graders

    @field_validator("calculate_output")
    @classmethod
    def _formula_is_readable(cls, formula: str, info: ValidationInfo) -> str:
        variables = parse_formula(formula).variables
        if "graders" not in info.data:  # they are refused already
            return formula
        known = _by_variable(info.data["graders"])
        for variable, position in variables.items():
            if variable not in known:
                raise ValueError(
                    f"at character {position}: no grader is called '{variable}'; "
                    f"known: {', '.join(known)}"
                )
        return formula


GraderSpec = Annotated[
    Annotated[
        StringCheckGrader
        | TextSimilarityGrader
        | PythonGrader
        | MathGrader
        | ReasoningGymGrader
        | MultiGrader,
        Field(discriminator="type"),
    ],
    BeforeValidator(_refuse_left_out),
]
_GRADERS: TypeAdapter[GraderSpec] = TypeAdapter(GraderSpec)


def parse_grader(document: Any, *, path: str = "") -> GraderSpec:
    """The grader in ``document`` (decoded JSON). Raises SpecError with paths below ``path``."""
    try:
        return _GRADERS.validate_python(document)
    except ValidationError as error:
        raise SpecError(problems_of(error.errors(include_url=False), document, path)) from None
