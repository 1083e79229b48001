"""What the experiments of one scene need not find out anew: the file they start from, and what dead ones have left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.files import Files


@dataclass(slots=True)
class Shelf:
    """Of the scene that was prepared last.

    Its other experiments start from a copy of its file: ``content``, None if there is none; ``found`` is what making it
    has shown. ``sound`` are files that dead processes have left and that were right in every respect. A file is its
    bytes: who leaves the same ones again, where the same is wanted of them, is not asked all of it again.
    """

    key: object = None
    content: bytes | None = None
    found: Any = None
    sound: list[tuple[object, Files]] = field(default_factory=list)

    def copy(self, key: object, path: Path) -> bool:
        """Whether it is the scene with this key; then its file is at ``path``."""
        if self.key == key and self.content is not None:
            path.write_bytes(self.content)
        return self.key == key

    def keep(self, key: object, path: Path, found: object) -> None:
        self.key, self.content, self.found = key, path.read_bytes() if path.exists() else None, found
        self.sound.clear()
