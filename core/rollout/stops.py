"""Which tokens end an answer.

Three say so, and no two of them need agree: the tokenizer, the model's generation settings, and the
chat template, by what it prints after an assistant's words. A model is trained to end a turn as the
template does, so a base model whose tokenizer ends documents with another token must stop there too.
"""

from typing import Any

from transformers import PreTrainedModel

_WORDS = "castalia"  # an answer, to see what follows it


def stop_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Ids of all tokens that end an answer; `tokenizer` is one of transformers."""
    settings = getattr(model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    several = named if isinstance(named, (list, tuple)) else [named]
    stops = {tokenizer.eos_token_id, *several, _end_of_turn(tokenizer)}
    return frozenset(int(token) for token in stops if token is not None)


def _end_of_turn(tokenizer: Any) -> int | None:
    """The special token that the template prints right after an answer; None where it prints none."""
    if not tokenizer.chat_template:
        return None
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _WORDS}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    tail = text.rpartition(_WORDS)[2].lstrip()
    ids = tokenizer(tail, add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder
    return ids[0] if ids and ids[0] in added and added[ids[0]].special else None
