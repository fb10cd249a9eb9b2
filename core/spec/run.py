"""The run directory: the seam between whoever wants a run and `python -m core.train`, which does it.

spec.json                        the JobSpec
inputs/NAME                      files and the base model, under the names that the spec uses (optional)
events.jsonl                     what the run says, a line a fact (core.spec.events)
beat.json                        how many parts of its work are done, in between (Beat)
kept/                            what layers keep for the backward pass, while a run stores it on disk
canary/                          a step on the longest rows, before the first; gone afterwards
trainer.log                      what the process printed, if a worker started it
checkpoints/step-00000010/       a whole checkpoint; it appears by a rename
    manifest.json                written last: every other file with its hash
    merged/                      of a job with trainer.adapter.merge: the whole model
"""

from typing import Final

from core.spec.tree import Spec

SPEC_FILE: Final = "spec.json"
INPUTS_FOLDER: Final = "inputs"
EVENTS_FILE: Final = "events.jsonl"
BEAT_FILE: Final = "beat.json"
KEPT_FOLDER: Final = "kept"
CANARY_FOLDER: Final = "canary"
LOG_FILE: Final = "trainer.log"
CHECKPOINTS_FOLDER: Final = "checkpoints"
RANKS_FOLDER: Final = "ranks"
"""What each process of a run on several devices writes for itself."""

MANIFEST_FILE: Final = "manifest.json"
CACHE_BYTES: Final = 8 * 2**30
"""Encoded rows that are kept beside run directories, unless a setting says otherwise."""

CHECKPOINT_FORMAT: Final = 2
"""The newest that this version writes and reads; older ones are read too."""


def checkpoint_name(step: int) -> str:
    """Sorts by step."""
    return f"step-{step:08d}"


class Beat(Spec):
    """``count``: passes and tokens that are done since the run began; what does not grow does not get on."""

    count: int


class ManifestFile(Spec):
    """One file of a checkpoint. ``kind``: weights, adapter, config, tokenizer, spec or state."""

    path: str
    kind: str
    bytes: int
    sha256: str


class Manifest(Spec):
    """What a whole checkpoint holds.

    ``format``: the version of its shape, 1 where it is not said. ``digest``: of the state that it was saved
    from (core.train.digest); None in format 1.
    """

    step: int
    format: int = 1
    digest: str | None = None
    files: list[ManifestFile]
