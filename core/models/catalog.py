"""Which base models can be trained: the folders below one folder, each with a ``config.json``.

A name is a path below that folder, ``NAME`` or ``ORGANISATION/NAME``. Only names that were found by looking
are ever opened, so a name from a request cannot leave the folder. No torch: the API asks here too.
"""

import json
from pathlib import Path
from typing import Any

from core.spec.model import ModelFacts

ADAPTER_CONFIG_FILE = "adapter_config.json"
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


class ModelUnusable(LookupError):
    """A base model that cannot be trained. Its message says why."""


class UnknownModel(ModelUnusable):
    """No base model has this name; the message lists those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        have = ", ".join(known) or "none; put a model's folder into the models folder"
        super().__init__(f"the model '{name}' does not exist; available: {have}")


class UnreadableModel(ModelUnusable):
    """A model's ``config.json`` does not say what must be known."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"config.json of the model '{name}' cannot be used: {reason}")


class AdapterAlone(ModelUnusable):
    """A folder that holds an adapter, as a checkpoint of a LoRA job does, and not a whole model."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model '{name}' is an adapter without the weights that it belongs to; train it with "
            "trainer.adapter.merge: true and give the folder merged/ of the checkpoint"
        )


class Catalog:
    """The base models below ``folder``. It is read anew each time: adding a model needs no restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All names, sorted."""
        if not self.folder.is_dir():
            return []
        found = [*self.folder.glob("*/config.json"), *self.folder.glob("*/*/config.json")]
        return sorted(path.parent.relative_to(self.folder).as_posix() for path in found)

    def path(self, name: str) -> Path:
        """The folder of a model. Raises UnknownModel."""
        known = self.names()
        if name not in known:
            raise UnknownModel(name, known)
        return self.folder / name

    def facts(self, name: str) -> ModelFacts:
        """What a spec must know of a model. Raises ModelUnusable."""
        return facts_of(self.path(name), name)


def facts_of(folder: Path, name: str) -> ModelFacts:
    """The facts in ``folder/config.json``; of a multi-part model, those of its text part.

    Raises UnreadableModel or AdapterAlone.
    """
    if (folder / ADAPTER_CONFIG_FILE).exists():
        # transformers would go and look for the base, and load the adapter into it.
        raise AdapterAlone(name)
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
        text = config.get("text_config", config)
        architectures = config.get("architectures") or [config.get("model_type", "unknown")]
        limits = [text[key] for key in CONTEXT_KEYS if isinstance(text.get(key), int)]
        return ModelFacts(
            name=name,
            architecture=architectures[0],
            longest_context=limits[0] if limits else None,
            vocabulary=text["vocab_size"],
        )
    except KeyError as error:
        raise UnreadableModel(name, f"{error} is missing") from error
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise UnreadableModel(name, str(error)) from error
