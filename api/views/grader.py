"""Graders and their verdicts in OpenAI's shape."""

from typing import Any, Self

from pydantic import BaseModel


class GraderView(BaseModel):
    """A grader that can be used."""

    grader: dict[str, Any]


class GraderRunMetadataView(BaseModel):
    """How a verdict came about; ``errors`` are flags."""

    name: str
    type: str
    execution_time: float
    scores: dict[str, float]
    errors: dict[str, bool | str | None]
    token_usage: int | None = None
    sampled_model_name: str | None = None


class GraderRunView(BaseModel):
    """The verdict on one answer. No judge model runs here, so none used a token."""

    reward: float
    sub_rewards: dict[str, float]
    metadata: GraderRunMetadataView
    model_grader_token_usage_per_model: dict[str, Any]

    @classmethod
    def of(cls, verdict: dict[str, Any]) -> Self:
        """The view of a `Grade`, field by field."""
        return cls(
            reward=verdict["reward"],
            sub_rewards=verdict["sub_rewards"],
            metadata=GraderRunMetadataView(
                **{name: verdict[name] for name in ("name", "type", "execution_time", "scores")},
                errors=verdict["errors"],
            ),
            model_grader_token_usage_per_model={},
        )
