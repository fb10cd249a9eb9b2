"""A model of random weights with a tokenizer of bytes and a chat template: for trying things out, and tests.

    python -m castalia.toy_model TARGET [--hidden 32] [--layers 2]

It knows nothing, loads in a moment, and learns small tasks within minutes on a CPU.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HEAD_WIDTH = 8


def make_toy_model(
    target: Path, *, hidden: int = 32, layers: int = 2, context: int = 512, seed: int = 0
) -> Path:
    """Write a Llama of that width and depth into the folder `target`, and return it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = _save_tokenizer(target)
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD_WIDTH,
        num_key_value_heads=hidden // HEAD_WIDTH // 2,
        vocab_size=words,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(target)
    return target


def _save_tokenizer(target: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytes_ = Tokenizer(models.BPE(vocab={word: id for id, word in enumerate(words)}, merges=[]))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast  # untyped in transformers
    tokenizer = fast(
        tokenizer_object=bytes_,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(target)
    return len(words)


def main() -> None:
    """Make one at the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    made = make_toy_model(options.target, hidden=options.hidden, layers=options.layers)
    sys.stdout.write(f"{made}\n")


if __name__ == "__main__":
    main()
