"""One fine-tuning run of `benchmarks.quality`: SmolLM2-135M on the demo's rows, by the product's own trainer.

`core.train` runs as a worker would run it; the validation losses are read from the events that it wrote.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.training_run import measured, run_spec
from castalia.demo_model import prepare_smollm2
from core.spec.trainer import Precision

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "castalia-data" / "demo" / "models" / "SmolLM2-135M-Instruct"
DATA = ROOT / "examples" / "data"
BATCH_SIZE, CONTEXT, EVALUATE_EVERY = 8, 1024, 6


@dataclass(frozen=True, slots=True)
class FinetuningCase:
    """`optimizer` is what a job's `trainer.optimizer` may be."""

    optimizer: dict[str, Any]
    precision: Precision
    rate: float

    def spec(self, model: Path) -> dict[str, Any]:
        """One epoch, as JSON of a JobSpec."""
        return {
            "model": str(model),
            "training_file": str(DATA / "devils_dictionary.train.jsonl"),
            "validation_file": str(DATA / "devils_dictionary.valid.jsonl"),
            "hyperparameters": {"n_epochs": 1, "batch_size": BATCH_SIZE},
            "trainer": {
                "context_length": CONTEXT,
                "optimizer": self.optimizer,
                "precision": self.precision,
                "learning_rate": self.rate,
                "evaluation": {"every": EVALUATE_EVERY},
                "checkpoint": {"keep_last": 1},
            },
        }


def finetuned(name: str, case: FinetuningCase) -> dict[str, Any]:
    """Run a case; give its curve of (step, validation loss in nats a trained token). Raises CaseFailed."""
    model = prepare_smollm2(MODEL)
    with tempfile.TemporaryDirectory(prefix="castalia-finetuning-") as folder:
        events = run_spec(name, case.spec(model), Path(folder, "run"))
    return {"curve": measured(events, "full_valid_loss")}
