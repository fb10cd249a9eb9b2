"""The workers: they hear a ring, take the job by a lease, and watch over the process that trains it.

Celery's processes never import torch: the trainer is a child of its own, so CUDA lives and dies with it.
"""
