"""Peers that need an environment of their own: `make peers` makes it in `benchmarks/peers/.venv`.

`requirements.txt` says what is in it. Nothing here is imported by the other benchmarks, which run
these modules with that environment's interpreter.
"""
