"""Stream a stock model in your own loop, with any optimizer: `own_loop.py MODEL TEXT_FILE`."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.streambp import Layout, attach, token_logps

CONTEXT, ROWS_PER_STEP = 32_768, 4


def main(folder: Path, text: str) -> None:
    """Make one pass over the text, accumulating gradients over rows; on a GPU under autocast."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).train()
    ids_T = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    attach(model, chunk_tokens=1024)
    rows = [row_T[None].to(device) for row_T in ids_T.split(CONTEXT + 1) if len(row_T) > 1]
    for start in range(0, len(rows), ROWS_PER_STEP):
        step = rows[start : start + ROWS_PER_STEP]
        scored = sum(row_BT.shape[1] - 1 for row_BT in step)  # one count for the whole step
        loss = 0.0
        for row_BT in step:
            layout = Layout.causal([row_BT.shape[1] - 1], row_BT.shape[1] - 1)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                logp_BT = token_logps(
                    model, row_BT[:, :-1], row_BT[:, 1:], layout, head_chunk_tokens=256
                )
            (part := -logp_BT.sum() / scored).backward()
            loss += part.item()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{scored} tokens, loss {loss:.4f}")


main(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
