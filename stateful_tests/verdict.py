"""From the checks that ran to one word: valid, invalid or unknown.

Invalid: a check showed what the module under test did wrong. Valid: every layer ran to its end and nothing was wrong.
Unknown: anything else, whatever the reason.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

Word = Literal["valid", "invalid", "unknown"]

LAYERS: Final = ("contract", "stateful", "atomicity")
EXIT_STATUS: Final[Mapping[Word, int]] = {"valid": 0, "invalid": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class Check:
    """One check that ended. ``why`` says what stands in the way of an answer; seconds are its own."""

    nodeid: str
    layer: str
    word: Word
    seconds: float
    did: Mapping[str, int] = field(default_factory=dict)
    difference: str = ""
    program: Sequence[str] = ()
    transcript: str = ""
    why: str = ""

    @property
    def title(self) -> str:
        """The sentence that the check is: its parameter if it has one, otherwise its name."""
        name = self.nodeid.rpartition("::")[2]
        base, _, parameter = name.removesuffix("]").partition("[")
        sentence = base.removeprefix("test_").replace("_", " ")
        return f"{sentence} [{parameter}]" if parameter else sentence


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    checks: int
    did: Mapping[str, int]
    word: Word
    seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word, the layers it rests on, and for a word that is not valid every reason."""

    word: Word
    layers: Sequence[Layer]
    failures: Sequence[Check]
    unanswered: Sequence[str]
    transcript: str

    @property
    def exit_status(self) -> int:
        return EXIT_STATUS[self.word]

    def as_json(self, **context: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever JSON can hold
        return {
            "verdict": self.word,
            **context,
            "programs": self.transcript,
            "layers": [asdict(layer) for layer in self.layers],
            "failures": [{"title": check.title, **asdict(check)} for check in self.failures],
            "unanswered": list(self.unanswered),
        }


def judge(checks: Iterable[Check], missing: Sequence[str] = (), reasons: Sequence[str] = ()) -> Verdict:
    """The verdict on all ``checks``; ``missing`` were collected and never ended, ``reasons`` forbid a valid."""
    checks = sorted(checks, key=lambda check: (LAYERS.index(check.layer), len(check.program), check.nodeid))
    layers = [_layer(name, [check for check in checks if check.layer == name]) for name in LAYERS]
    failures = [check for check in checks if check.word == "invalid"]
    unanswered = [
        *reasons,
        *(f"{layer.name}: no check of this layer ran" for layer in layers if not layer.checks),
        *(f"{nodeid}: did not run to its end" for nodeid in missing),
        *(f"{check.nodeid}: {check.why}" for check in checks if check.word == "unknown"),
    ]
    word: Word = "invalid" if failures else "unknown" if unanswered else "valid"
    return Verdict(word, layers, failures, unanswered, _transcript(checks))


def _transcript(checks: Iterable[Check]) -> str:
    """One digest over all that was drawn: equal for two runs with one seed, whatever order the checks ran in."""
    lines = sorted(f"{check.nodeid} {check.transcript}" for check in checks if check.transcript)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _layer(name: str, checks: Sequence[Check]) -> Layer:
    words = {check.word for check in checks}
    word: Word = "invalid" if "invalid" in words else "valid" if words == {"valid"} else "unknown"
    did: Counter[str] = Counter()
    for check in checks:
        did.update(check.did)
    return Layer(name, len(checks), dict(did), word, sum(check.seconds for check in checks))


def table(layers: Sequence[Layer]) -> list[str]:
    """The layers as aligned text; seconds are added up over the processes that shared the work."""
    head = ("layer", "checks", "did", "result", "seconds")
    rows = [
        (
            layer.name,
            f"{layer.checks:,}",
            ", ".join(f"{count:,} {what}" for what, count in layer.did.items()) or "nothing",
            layer.word,
            f"{layer.seconds:.1f}",
        )
        for layer in layers
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    right = {"checks", "seconds"}
    return [
        "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in zip(head, row, widths, strict=True)
        ).rstrip()
        for row in (head, *rows)
    ]
