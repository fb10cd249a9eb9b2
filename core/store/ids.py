"""Ids as OpenAI's clients know them: a prefix that tells the noun, and 24 random characters."""

import secrets
import string

ALPHABET = string.ascii_letters + string.digits
ID_CHARACTERS = 24


def new_id(prefix: str) -> str:
    """``file-`` makes ``file-9Xc…``; unguessable, so an id from another project cannot be found by trying."""
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(ID_CHARACTERS))
