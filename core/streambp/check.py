"""Print the exactness receipt of a model.

    python -m core.streambp.check MODEL_OR_CONFIG [--dtype float64] [--tokens 96]
        [--chunk-tokens 1 7 64 96 97] [--device cpu] [--json]

MODEL_OR_CONFIG is a folder with weights, or a folder or file with a configuration alone, which is
then given random weights. In float64 the model's own casts to float32 are widened, unless --own-casts.
Ends with 0 where every gradient is exact, 1 where one is not or the model is refused, 2 for wrong usage.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from core.streambp.errors import StreamError
from core.streambp.receipt import TOLERANCE, Receipt, receipt

MIB = 2**20
WIDTH = 100
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in TOLERANCE}


def main(arguments: list[str] | None = None) -> int:
    """Compare and print; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        model = load(options.model, _DTYPES[options.dtype]).to(options.device)
        found = receipt(
            model,
            tokens=options.tokens,
            chunk_tokens=options.chunk_tokens or _chunk_lengths(options.tokens),
            tolerance=options.tolerance,
            widened=model.dtype == torch.float64 and not options.own_casts,
        )
    except (OSError, ValueError) as error:  # transformers' word for what cannot be loaded; ours
        kind = "refused" if isinstance(error, StreamError) else "cannot be loaded"
        sys.stderr.write(f"check: {options.model} {kind}: {' '.join(str(error).split())}\n")
        return 1
    print(json.dumps(as_json(found)) if options.json else as_text(found))  # noqa: T201  its purpose
    return 0 if found.exact else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m core.streambp.check", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", choices=sorted(_DTYPES), default="float64")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--chunk-tokens", type=int, nargs="+")
    parser.add_argument("--tolerance", type=float, help="default: by dtype")
    parser.add_argument(
        "--own-casts",
        action="store_true",
        help="keep the model's own casts from float64 to float32",
    )
    parser.add_argument("--json", action="store_true")
    return parser


def _chunk_lengths(tokens: int) -> list[int]:
    """One, one that does not divide T, a usual one, T itself, one longer."""
    return sorted({1, 7, min(64, tokens), tokens, tokens + 1})


def load(source: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model in `dtype`, ready to train. Raises OSError or ValueError.

    Mixtures of experts take their plain implementation: the others refuse float64.
    """
    folder = source if source.is_dir() else source.parent
    weighted = any(folder.glob("*.safetensors")) and source.is_dir()
    if weighted:
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, experts_implementation="eager"
        )
    else:
        torch.manual_seed(0)
        config = AutoConfig.from_pretrained(source)
        model = AutoModelForCausalLM.from_config(config, experts_implementation="eager")
        model.to(dtype)
    return model.train()


def as_json(found: Receipt) -> dict[str, object]:
    """The receipt as one JSON object."""
    fields = asdict(found)
    return {**fields, "dtype": str(found.dtype), "worst": found.worst, "exact": found.exact}


def as_text(found: Receipt) -> str:
    """The receipt as a table and a verdict."""
    table = Table("kind of parameter", "worst relative error")
    for kind, error in found.errors.items():
        table.add_row(kind, f"{error:.1e}")
    fallen = [report for report in found.layers if report.status != "streamed"]
    console = Console(width=WIDTH, record=True, quiet=True)
    console.print(table)
    dtype = str(found.dtype).removeprefix("torch.")
    chunks = ", ".join(map(str, found.chunk_tokens))
    plain, streamed = found.peak_plain / MIB, found.peak_streamed / MIB
    verdict = "exact" if found.exact else "NOT EXACT"
    lines = [
        console.export_text().rstrip(),
        f"{len(found.layers) - len(fallen)} of {len(found.layers)} layers streamed",
        *(f"  {report.name} {report.status}: {report.reason}" for report in fallen),
        f"dtype {dtype}, 2 x {found.tokens} tokens, chunks of {chunks}",
        f"live MiB above weights: plain {plain:.2f}, streamed {streamed:.2f}",
        f"{verdict}: worst relative error {found.worst:.1e}, allowed {found.tolerance:.0e}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
