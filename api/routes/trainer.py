"""/v1/trainer: our own corner, beside OpenAI's surface."""

from typing import Any

from fastapi import APIRouter

from core.spec.trainer import TrainerSpec

router = APIRouter(prefix="/trainer", tags=["Trainer"])


@router.get("/schema")
def schema() -> dict[str, Any]:
    """The JSON Schema of the `trainer` object, with every default and bound."""
    return TrainerSpec.model_json_schema()
