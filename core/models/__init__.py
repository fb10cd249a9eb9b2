"""Base models: which there are, and how weights are loaded and saved.

`core.models.catalog` needs no torch; the rest does, so nothing is imported here.
"""
