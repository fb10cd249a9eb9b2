"""Which base models can be trained: the folders below one folder, each with a ``config.json``.

A name is a path below that folder, ``NAME`` or ``ORGANISATION/NAME``; of a model from a hub it ends in the
commit to which it is pinned, ``ORGANISATION/NAME@COMMIT``. Only names that were found by looking are ever
opened, so a name from a request cannot leave the folder. A folder whose model would need code of its own, or
whose weights are pickles, is refused by the name of the file that says so. No torch: the API asks here too.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from core.spec.model import ModelFacts

ADAPTER_CONFIG_FILE = "adapter_config.json"
CODE_FILES = ("config.json", "tokenizer_config.json")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


class ModelUnusable(LookupError):
    """A base model that cannot be trained. Its message says why."""


class UnknownModel(ModelUnusable):
    """No base model has this name; the message lists those that there are."""

    def __init__(self, name: str, known: list[str], allowed: Collection[str] = ()) -> None:
        have = ", ".join(known) or "none; put a model's folder into the models folder"
        what = "does not exist"
        if name in allowed:
            what = "is allowed but does not lie in the models folder yet"
        elif any(pinned.partition("@")[0] == name.partition("@")[0] for pinned in known):
            what = "is known by the name with its commit alone"
        super().__init__(f"the model '{name}' {what}; available: {have}")


class UnreadableModel(ModelUnusable):
    """A model's ``config.json`` does not say what must be known."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"config.json of the model '{name}' cannot be used: {reason}")


class NeedsCode(ModelUnusable):
    """A model that brings Python code of its own, which is never run."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__(
            f"the model '{name}' wants code of its own to be run (auto_map in its {file}), "
            "which is never done; if transformers knows its model_type, take auto_map out of that file"
        )


class PickledWeights(ModelUnusable):
    """A model whose only weights are pickles, which run code when they are loaded."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__(
            f"the weights of the model '{name}' are a pickle, {file}, which is never loaded; convert them to "
            "safetensors, or take a revision that has these"
        )


class AdapterAlone(ModelUnusable):
    """A folder that holds an adapter, as a checkpoint of a LoRA job does, and not a whole model."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model '{name}' is an adapter without the weights that it belongs to; train it with "
            "trainer.adapter.merge: true and give the folder merged/ of the checkpoint"
        )


class Catalog:
    """The base models below ``folder``. It is read anew each time: adding a model needs no restart.

    ``allowed``: the only names that count; None: all that are found.
    """

    def __init__(self, folder: Path, allowed: Collection[str] | None = None) -> None:
        self.folder = folder
        self.allowed = allowed

    def names(self) -> list[str]:
        """All names that are allowed and found, sorted."""
        if not self.folder.is_dir():
            return []
        found = [*self.folder.glob("*/config.json"), *self.folder.glob("*/*/config.json")]
        names = sorted(path.parent.relative_to(self.folder).as_posix() for path in found)
        return [name for name in names if self.allowed is None or name in self.allowed]

    def path(self, name: str) -> Path:
        """The folder of a model. Raises UnknownModel."""
        known = self.names()
        if name not in known:
            raise UnknownModel(name, known, self.allowed or ())
        return self.folder / name

    def facts(self, name: str) -> ModelFacts:
        """What a spec must know of a model. Raises ModelUnusable."""
        return facts_of(self.path(name), name)


def facts_of(folder: Path, name: str) -> ModelFacts:
    """The facts in ``folder/config.json``; of a multi-part model, those of its text part.

    Raises UnreadableModel, AdapterAlone, NeedsCode or PickledWeights.
    """
    if (folder / ADAPTER_CONFIG_FILE).exists():
        # transformers would go and look for the base, and load the adapter into it.
        raise AdapterAlone(name)
    _refuse_pickles(folder, name)
    for file in CODE_FILES:
        if _wants_code(folder / file):
            raise NeedsCode(name, file)
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


def _refuse_pickles(folder: Path, name: str) -> None:
    if next(folder.glob("*.safetensors"), None) is not None:
        return
    for pattern in PICKLES:
        for found in folder.glob(pattern):
            raise PickledWeights(name, found.name)


def _wants_code(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_bytes()).get("auto_map"))
    except (OSError, ValueError, AttributeError):
        return False  # It is looked at again where it is read.
