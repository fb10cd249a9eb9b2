"""Write README's table of longest contexts by running `castalia plan` for each of its cells.

python scripts/write_plan_table.py            # or `make docs`
"""

import re
from pathlib import Path

from typer.testing import CliRunner

from castalia.__main__ import app

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "README.md"
BEGIN, END = "<!-- plan -->\n", "<!-- end of plan -->\n"
MODELS = ("qwen2.5-7b", "llama-3.1-8b")
STORES = ("device", "cpu")
DEVICES_GIB = (24, 48, 80, 141)
WORDS = (
    "--precision bfloat16 --optimizer apollo_mini --embeddings apollo --fused --chunk-tokens 2048"
)


def table() -> str:
    """The table in Markdown, a row for each model and store."""
    head = ["`--model examples/configs/…`", "`--store`", *(f"{gib} GiB" for gib in DEVICES_GIB)]
    lines = [head, ["---", "---", *("---:" for _ in DEVICES_GIB)]]
    for model in MODELS:
        for store in STORES:
            cells = [longest(model, store, gib) for gib in DEVICES_GIB]
            lines.append([f"`{model}.json`", f"`{store}`", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def longest(model: str, store: str, device_gib: int) -> str:
    """The longest context as the command prints it; a dash where it says that nothing fits."""
    path = ROOT / "examples" / "configs" / f"{model}.json"
    words = ["plan", "--model", str(path), "--store", store, "--device-gib", str(device_gib)]
    said = CliRunner().invoke(app, [*words, *WORDS.split()])
    found = re.search(r"longest context: ([\d,]+) tokens", said.output)
    if found is None:
        raise SystemExit(f"castalia plan {' '.join(words)}: {said.output or said.exception}")
    return found[1]


if __name__ == "__main__":
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(before + BEGIN + table() + END + after)
