"""Pretraining: the cross-entropy of sft, under another name for the same function.

What sets the two apart is decided before: in pretraining every token but the first of every document has
weight 1, whoever wrote it. A second copy could only drift from the first.
"""

from core.objectives.sft import sft as pretrain

__all__ = ["pretrain"]
