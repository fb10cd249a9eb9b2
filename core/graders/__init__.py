"""Graders: from an answer and its row to a reward, with what went wrong said beside it.

``grade`` and ``grade_many`` (core.graders.grade) are the way in, ``refusals`` (core.graders.check) asks at
submission what only a library or the sandbox can tell. Nothing here imports torch, and nothing but
``inside`` a library: the API, the worker and the trainer import it alike. Kept free of imports because a
sandboxed process reads it too.
"""
