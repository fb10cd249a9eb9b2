"""Small random models of any family, for the rooms of the core that know transformers."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def random_model() -> Callable[..., Any]:
    """Build `random_model(family, words, noise)`: float64, eager experts; noise moves matrices off zero."""

    def build(family: str, words: dict[str, Any], noise: float) -> Any:
        import torch
        import transformers

        config = transformers.AutoConfig.for_model(family, **words)
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(
            config, experts_implementation="eager"
        ).double()
        with torch.no_grad():
            for parameter in model.parameters():
                scale = noise if parameter.ndim > 1 else 0.1
                parameter.add_(torch.randn_like(parameter) * scale)
        return model

    return build
