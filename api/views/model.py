"""A model as the API shows it."""

from typing import Literal

from pydantic import BaseModel


class ModelView(BaseModel):
    """OpenAI's model object; ``context_length`` is ours: the most that the model was made for."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    context_length: int | None = None
