"""An upper estimate of a text's tokens, without any model's tokenizer."""

from __future__ import annotations

import string
from typing import Final

_LETTERS_AND_SPACE: Final = (string.ascii_letters + string.whitespace).encode()

CHARACTERS_PER_TOKEN: Final = 3.5
"""Characters per token of letters and spaces, taken for as few as they ever are; of all other text
there are fewer."""


def estimate_tokens(text: str) -> float:
    """Return an upper estimate of a text's tokens, in microseconds, whatever the tokenizer.

    English takes a token for 4 to 5 letters, and at most one for each digit or sign. A Chinese
    character is 3 bytes and at most about 1.5 tokens, an emoji 4 bytes and about 2. The estimate
    of two texts is the sum of theirs.
    """
    ascii_bytes = text.encode("ascii", "ignore")
    signs = len(ascii_bytes.translate(None, _LETTERS_AND_SPACE))
    wide = len(text.encode("utf-8", "replace")) - len(ascii_bytes)
    return (len(ascii_bytes) - signs) / CHARACTERS_PER_TOKEN + signs + wide / 2


def reply_tokens(sentences: int, chunks: int, references: int = 0) -> int:
    """Return the room for a reply: about three times what an honest one takes.

    Args:
        sentences: Of the answer.
        chunks: That are rated.
        references: Sentences of the reference answer.
    """
    return 60 + 28 * sentences + 4 * chunks + 58 * references
