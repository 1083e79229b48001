"""Deliberate faults: small edits of the shipped files, each named after what it does wrong; beside them, right ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RIGHT: Final = Path(__file__).resolve().parent / "right"
"""By kind, implementations that are right and written differently."""


class Unappliable(Exception):
    """The text that an edit replaces is not there, or not once; one line says which."""


class Mutant(NamedTuple):
    """One wrong implementation.

    ``clause`` is what it breaks, in the words of the README or the docstrings; each of ``edits`` replaces a text that
    stands in the shipped file once. ``seen`` is the address of a published bug of this kind, where there is one.
    ``equivalent`` says why no caller and no file can tell it from the right one: such a mutant must be found valid.
    """

    name: str
    clause: str
    edits: tuple[tuple[str, str], ...]
    seen: str = ""
    equivalent: str = ""

    def apply(self, text: str) -> str:
        """The shipped ``text`` with the edits made; Unappliable if one no longer fits."""
        for old, new in self.edits:
            if text.count(old) != 1:
                raise Unappliable(f"{self.name}: the edit no longer applies: {text.count(old)} times {old!r}")
            text = text.replace(old, new)
        return text


def doubled(mutants: tuple[Mutant, ...]) -> Iterator[str]:
    """The names, and the edits, that stand there twice."""
    for key in (lambda mutant: mutant.name, lambda mutant: repr(mutant.edits)):
        seen: set[str] = set()
        for mutant in mutants:
            if key(mutant) in seen:
                yield mutant.name
            seen.add(key(mutant))
