"""Encoded rows kept on disk for the next run on the same data: docs/adr/0016-rows-are-kept.md."""

from core.train.cache.folder import CachePlace, RowCache

__all__ = ["CachePlace", "RowCache"]
