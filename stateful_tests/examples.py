"""Hypothesis' example database in a gate: what failed once is tried again, here first, then what other machines found.

The checks that draw programs never read it, so that a seed alone decides what they draw; checks of their own try what
is saved. What a failing check ends at is added when it is over. Nothing is taken out of a shared database: an example
that passes here may still fail elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hypothesis import settings
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    InMemoryExampleDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)
from hypothesis.errors import HypothesisWarning

BLOB: Final = re.compile(r"@reproduce_failure\('[^']+', b'([^']+)'\)")
SERVERS: Final = ("redis", "rediss", "unix")
SECONDS: Final = 5.0
"""How long a server may take to answer."""


class Found(InMemoryExampleDatabase):
    """What one check has found: it remembers under which keys."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[bytes] = set()

    def save(self, key: bytes, value: bytes) -> None:
        self.keys.add(key)
        super().save(key, value)


class Examples:
    """The databases of one check: ``saved`` is to be tried, ``found`` is where to put what fails; None, where there is
    no database.
    """

    def __init__(self, *databases: ExampleDatabase) -> None:
        """The first database is this machine's, and it alone forgets what no longer fails."""
        self._databases = databases
        others = map(ReadOnlyDatabase, databases[1:])
        self.saved = MultiplexedDatabase(databases[0], *others) if databases else None
        self.found = Found() if databases else None

    def publish(self) -> None:
        """Add to each database what the check has ended at: the smallest examples, not those on the way to them."""
        for key in self.found.keys if self.found else ():
            if not key.endswith((b".secondary", b".pareto")):
                for value in self.found.fetch(key) if self.found else ():
                    for database in self._databases:
                        database.save(key, value)


def examples(place: str) -> Examples:
    """Hypothesis' own database, unless its profile has none, as in CI; and the one at ``place``, if it is given."""
    try:
        own = settings().database
    except HypothesisWarning:  # that it cannot be written
        own = InMemoryExampleDatabase()
    shared = [at(place)] if place else []
    if own is None and shared:
        own = InMemoryExampleDatabase()
    return Examples(*([] if own is None else [own]), *shared)


def at(place: str) -> ExampleDatabase:
    """The database in this folder, or on this server."""
    if not is_server(place):
        return DirectoryBasedExampleDatabase(place)
    from hypothesis.extra.redis import RedisExampleDatabase  # noqa: PLC0415 - only who names a server needs redis
    from redis import Redis  # noqa: PLC0415

    return RedisExampleDatabase(Redis.from_url(place, socket_timeout=SECONDS, socket_connect_timeout=SECONDS))


def is_server(place: str) -> bool:
    """Is it a URL, not a folder?"""
    return urlsplit(place).scheme in SERVERS


def problem_with(place: str) -> str:
    """Why no examples can be had there, in one line, or nothing. A password is not repeated."""
    if not is_server(place):
        return f"--examples: {place}: not a folder" if Path(place).exists() and not Path(place).is_dir() else ""
    url = urlsplit(place)
    name = f"{url.scheme}://{url.hostname or ''}{f':{url.port}' if url.port else ''}{url.path}"
    try:
        list(at(place).fetch(b""))
    except ImportError:
        return f"--examples: {name}: needs the package redis"
    except Exception as error:  # noqa: BLE001 - redis has many
        return f"--examples: {name}: no answer: {' '.join(str(error).split())}"
    return ""


def blob_of(error: BaseException) -> str:
    """What Hypothesis says of the example that failed, to repeat it; empty where it says nothing."""
    found = BLOB.search("\n".join(getattr(error, "__notes__", ())))
    return found[1] if found else ""
