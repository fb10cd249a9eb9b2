"""The shapes in which files write rows: one module a family, and `detect`, which tells them apart."""
