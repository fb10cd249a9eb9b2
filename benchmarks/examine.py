"""One family, examined: built small, run plainly, run streamed, compared."""

import torch
import transformers
from transformers import PreTrainedModel

from benchmarks.families import NoToy, toy_model
from benchmarks.family_table import Family
from core.streambp.attach import LayerReport
from core.streambp.errors import StreamError
from core.streambp.receipt import PlainFailed, receipt

TOKENS = 13
CHUNKS = (1, 4, TOKENS + 1)
TOLERANCE = 1e-10
"""Of a gradient's norm, with the model's own casts to float32 widened."""

OWN_CASTS_TOLERANCE = 1e-4
"""With them: two exact ways to one gradient differ by what float32 rounds, in deep recurrences more."""


def examine(model_type: str) -> Family:
    """Say how `model_type` fares; never raises."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    try:
        model = toy_model(model_type)
        found = receipt(
            model, tokens=TOKENS, chunk_tokens=CHUNKS, tolerance=TOLERANCE, widened=True
        )
    except (NoToy, PlainFailed) as error:
        return Family(model_type, "unbuilt", reason=_line(error))
    except StreamError as error:
        return Family(model_type, "refused", reason=_line(error))
    except Exception as error:  # noqa: BLE001  loud, so not wrong; but no refusal of ours either
        return Family(
            model_type, "refused", reason=f"raises {type(error).__name__}: {_line(error)}"
        )
    casting = _with_own_casts(model)
    streamed = sum(report.status == "streamed" for report in found.layers)
    reason = _fallbacks(found.layers)
    status = "partly" if 0 < streamed < len(found.layers) else "checkpointed"
    if streamed == len(found.layers):
        status = "streamed"
    if not found.exact or (casting or 0.0) > OWN_CASTS_TOLERANCE:
        kind = max(found.errors, key=lambda kind: found.errors[kind])
        status, reason = "wrong", f"{kind} is off by {found.errors[kind]:.1e}; {reason}"
    return Family(model_type, status, found.worst, casting, streamed, len(found.layers), reason)


def _with_own_casts(model: PreTrainedModel) -> float | None:
    """The worst error of the model as it is; None where it does not run in float64 at all."""
    try:
        return receipt(model, tokens=TOKENS, chunk_tokens=CHUNKS[1:2]).worst
    except (PlainFailed, RuntimeError):
        return None


def _fallbacks(layers: tuple[LayerReport, ...]) -> str:
    """Name the layers that are not streamed, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for report in layers:
        if report.status != "streamed":
            reasons.setdefault(report.reason, []).append(report.name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
