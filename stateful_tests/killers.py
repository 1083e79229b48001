"""Which checks have found which wrong implementation: a record that makes the exam quick, and its matrix.

By kind and name of the mutant, and by layer: the node id of the check that found it, or null where a whole layer missed
it. A layer that is not there was never asked. An entry that no longer holds costs time, and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from stateful_tests.verdict import LAYERS

Killers = Mapping[str, Mapping[str, Mapping[str, str | None]]]

FILE: Final = Path(__file__).resolve().parent / "mutants" / "killers.json"


class Unreadable(Exception):
    """The record is not JSON; one line says where."""


def read() -> Killers:
    """The record; empty if there is none."""
    try:
        known: Killers = json.loads(FILE.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Unreadable(f"{FILE.name}: {error}") from error
    return known


def merged(known: Killers, found: Killers, names: Mapping[str, Sequence[str]]) -> Killers:
    """What was known, and what was found; what has none of these names any more goes."""
    return {
        kind: {
            name: {**known.get(kind, {}).get(name, {}), **found.get(kind, {}).get(name, {})}
            for name in existing
            if name in known.get(kind, {}) or name in found.get(kind, {})
        }
        for kind, existing in names.items()
    }


def record(known: Killers) -> None:
    """Replace the record."""
    FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def early(known: Killers, kind: str, name: str) -> tuple[str, ...]:
    """The checks to begin with: those that found this one, then those that have found most of its kind; of each, the
    first layer's, which take the least time.
    """
    mutants = {other: _checks(layers) for other, layers in known.get(kind, {}).items()}
    often = Counter(check for checks in mutants.values() for check in checks[:1])
    return tuple(dict.fromkeys([*mutants.get(name, ()), *(check for check, _ in often.most_common())]))


def _checks(layers: Mapping[str, str | None]) -> list[str]:
    """Those that found it, in the order of the layers."""
    return [check for layer in LAYERS if (check := layers.get(layer))]


def holds(known: Killers, kind: str, name: str, found: Mapping[str, str]) -> bool:
    """Is one of the checks that found it among those that are known to?"""
    return bool(set(known.get(kind, {}).get(name, {}).values()) & set(found.values()))


def is_whole(known: Killers, kind: str, name: str) -> bool:
    """Has every layer been asked about it?"""
    return set(LAYERS) <= set(known.get(kind, {}).get(name, {}))


def alone(known: Killers) -> Iterator[str]:
    """What each layer alone misses, of those that every layer has been asked about, and what nothing else finds."""
    matrix = {
        f"{kind}: {name}": {layer for layer, check in layers.items() if check}
        for kind, mutants in known.items()
        for name, layers in mutants.items()
        if is_whole(known, kind, name)
    }
    for layer in LAYERS if matrix else ():
        missed = sum(layer not in found for found in matrix.values())
        only = [name for name, found in matrix.items() if found == {layer}]
        yield f"{layer:<11} alone misses {missed} of {len(matrix)}; nothing else finds {len(only)}"
