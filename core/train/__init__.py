"""The trainer: from a JobSpec and a run directory to weights. `python -m core.train SPEC --out DIR`."""
