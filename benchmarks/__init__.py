"""Measurements, each a module that prints a table and, with `--json`, one JSON object."""
