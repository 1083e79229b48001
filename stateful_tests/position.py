"""Where in a check its failure lies, for a check that can go straight there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FORM: Final = re.compile(r"[\w+/=.-]+")
"""What fits into a token."""


class BadPosition(Exception):
    """A token's position that means nothing to its check."""


@dataclass(slots=True)
class Position:
    """``wanted`` is where a token leads, if it leads anywhere; ``reached`` is where the check is now."""

    wanted: str = ""
    reached: str = ""

    def __str__(self) -> str:
        return self.reached

    def number(self) -> int:
        """The round that is wanted."""
        if self.wanted.isdecimal() and self.wanted.isascii():
            return int(self.wanted)
        raise BadPosition(f"{self.wanted!r} is no round of this check")
