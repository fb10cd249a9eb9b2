"""What a run found in one of its files, in the model's own tokens."""

from typing import Literal

from core.spec.tree import Spec


class LengthBucket(Spec):
    """Rows of at least ``shortest`` and at most ``longest`` tokens."""

    shortest: int
    longest: int
    rows: int


class FileRead(Spec):
    """A file's rows as they are used; ``lengths`` are those before any was cut or dropped."""

    param: Literal["training_file", "validation_file"]
    rows: int
    tokens: int
    trained_tokens: int
    longest: int
    lengths: list[LengthBucket]
    cached: bool
    """Whether the rows were kept from an earlier reading of the same bytes, so that no line was read."""

    @property
    def words(self) -> str:
        """All of it in a line."""
        spread = ", ".join(f"{b.shortest:,}-{b.longest:,}: {b.rows:,}" for b in self.lengths)
        return (
            f"{self.param}: {self.rows:,} rows of {self.tokens:,} tokens, {self.trained_tokens:,} trained, "
            f"longest {self.longest:,}{', cached' if self.cached else ''}; rows by tokens: {spread}"
        )
