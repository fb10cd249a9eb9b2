"""Training data: from bytes to rows, from rows to token ids with a mask, and the order of steps.

Nothing here imports torch or transformers; a tokenizer comes in as an object.
"""
