"""From the checks that ran to one word: valid, invalid or unknown.

Invalid: a check showed what the module under test did wrong. Valid: every layer ran to its end and nothing was wrong.
Unknown: anything else, whatever the reason.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

Word = Literal["valid", "invalid", "unknown"]
LayerWord = Literal["valid", "invalid", "unknown", "not tried"]

LAYERS: Final = ("contract", "stateful", "transitions", "schedules", "atomicity", "delivery", "storm", "syscalls")
OPTIONAL: Final = ("syscalls",)
"""The layers that need what a machine may lack: what they skip is named in the verdict, and does not change it."""
WHOLE: Final = ("transitions",)
"""The layers whose checks share out one finite world: valid only if together they covered all of it."""
TITLES: Final = ("judged", "layer", "checks", "did", "result", "seconds")
EXIT_STATUS: Final[Mapping[Word, int]] = {"valid": 0, "invalid": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class Check:
    """One check that ended. ``why`` says what stands in the way of an answer, or why it was ``skipped``.
    Seconds are its own.

    ``covered`` is by kind: how many this check did, and how many all checks of its layer have to do together.
    ``steps`` is its program as data, where there is one: the one that shows the difference, or what was done up to
    where no answer came; ``origin`` says how Hypothesis draws it again. ``replay`` is the command that makes the check
    again, by its ``token``.
    """

    nodeid: str
    kind: str
    layer: str
    word: Word
    seconds: float
    did: Mapping[str, int] = field(default_factory=dict)
    covered: Mapping[str, Sequence[int]] = field(default_factory=dict)
    difference: str = ""
    program: Sequence[str] = ()
    transcript: str = ""
    why: str = ""
    skipped: bool = False
    steps: Sequence[str] = ()
    origin: str = ""
    position: str = ""
    token: str = ""
    replay: str = ""

    @property
    def title(self) -> str:
        """The sentence that the check is: its parameter if it has one, otherwise its name."""
        name = self.nodeid.rpartition("::")[2]
        base, _, parameter = name.removesuffix("]").partition("[")
        sentence = base.removeprefix("test_").replace("_", " ")
        return f"{sentence} [{parameter}]" if parameter else sentence

    @property
    def not_tried(self) -> bool:
        """Skipped, in a layer of which this says nothing but that the machine lacks something."""
        return self.skipped and self.layer in OPTIONAL


@dataclass(frozen=True, slots=True)
class Layer:
    """All checks of one layer on one module. ``covered`` is by operation: how many they did, and how many there are."""

    kind: str
    name: str
    checks: int
    did: Mapping[str, int]
    covered: Mapping[str, tuple[int, int]]
    word: LayerWord
    seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word, the layers it rests on, and for a word that is not valid every reason.

    ``stopped`` are the checks that came to no answer, for ``unanswered`` says it in words.
    """

    word: Word
    layers: Sequence[Layer]
    failures: Sequence[Check]
    unanswered: Sequence[str]
    not_tried: Sequence[str]
    transcript: str
    stopped: Sequence[Check] = ()
    checks: Sequence[Check] = ()

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
            "stopped": [{"title": check.title, **asdict(check)} for check in self.stopped],
            "unanswered": list(self.unanswered),
            "not_tried": list(self.not_tried),
        }


def judge(
    checks: Iterable[Check], kinds: Sequence[str], missing: Sequence[str] = (), reasons: Sequence[str] = ()
) -> Verdict:
    """The verdict on all ``checks``, of modules of these ``kinds``.

    ``missing`` checks were collected and never ended; ``reasons`` forbid a valid.

    A reason also says why a layer may be without checks; without one, each such layer is named.
    """
    checks = sorted(checks, key=lambda check: (LAYERS.index(check.layer), len(check.program), check.nodeid))
    layers = [
        _layer(kind, name, [check for check in checks if (check.kind, check.layer) == (kind, name)])
        for kind in kinds
        for name in LAYERS
    ]
    failures = [check for check in checks if check.word == "invalid"]
    stopped = [check for check in checks if check.word == "unknown" and not check.not_tried]
    unanswered = [
        *reasons,
        *(
            f"{layer.kind}: {layer.name}: no check of this layer ran"
            for layer in layers
            if not layer.checks and not reasons
        ),
        *(f"{nodeid}: did not run to its end" for nodeid in missing),
        *(f"{check.nodeid}: {check.why}{_where(check)}" for check in stopped),
        *(
            f"{layer.kind}: {layer.name}: {line}"
            for layer in layers
            if layer.word != "invalid"
            for line in _left_out(layer)
        ),
    ]
    word: Word = "invalid" if failures else "unknown" if unanswered else "valid"
    not_tried = list(dict.fromkeys(f"{check.kind}: {check.layer}: {check.why}" for check in checks if check.not_tried))
    return Verdict(word, layers, failures, unanswered, not_tried, _transcript(checks), stopped, checks)


def _where(check: Check) -> str:
    """What was being done when no answer came, and the token."""
    at = f"; at {check.steps[-1].removeprefix('# ').removeprefix('meanwhile: ')}" if check.steps else ""
    return f"{at} ({check.token})" if check.token else at


def _transcript(checks: Iterable[Check]) -> str:
    """One digest over all that was drawn: equal for two runs with one seed, whatever order the checks ran in."""
    lines = sorted(f"{check.nodeid} {check.transcript}" for check in checks if check.transcript)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def _layer(kind: str, name: str, checks: Sequence[Check]) -> Layer:
    word = _worst(checks)
    did: Counter[str] = Counter()
    for check in checks:
        did.update(check.did)
    layer = Layer(kind, name, len(checks), dict(did), _covered(checks), word, sum(check.seconds for check in checks))
    return replace(layer, word="unknown") if word == "valid" and any(_left_out(layer)) else layer


def _worst(checks: Sequence[Check]) -> LayerWord:
    words = {check.word for check in checks if not check.not_tried}
    if checks and not words:
        return "not tried"
    return "invalid" if "invalid" in words else "valid" if words == {"valid"} else "unknown"


def _covered(checks: Sequence[Check]) -> dict[str, tuple[int, int]]:
    """What the checks did is added up; what there is to do, each of them says, and the most counts."""
    kinds = dict.fromkeys(kind for check in checks for kind in check.covered)
    every = {kind: [check.covered[kind] for check in checks if kind in check.covered] for kind in kinds}
    return {kind: (sum(done for done, _ in pairs), max(total for _, total in pairs)) for kind, pairs in every.items()}


def _left_out(layer: Layer) -> Iterator[str]:
    """Where the layer has not covered its world exactly: too little leaves a gap, too much may hide one."""
    if layer.name in WHOLE and layer.checks and not layer.covered:
        yield "no check says how much there is to cover"
    for kind, (done, total) in layer.covered.items():
        if done != total:
            yield f"{kind} {done:,} of {total:,} replayed"


def table(layers: Sequence[Layer]) -> list[str]:
    """The layers as aligned text; seconds are added up over the processes that shared the work."""
    rows = [TITLES, *cells(layers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = {"checks", "seconds"}
    return [
        "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in zip(TITLES, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def cells(layers: Iterable[Layer]) -> Iterator[tuple[str, ...]]:
    """The row of each layer, under ``TITLES``."""
    for layer in layers:
        did = ", ".join(_figures(layer)) or "nothing"
        yield layer.kind, layer.name, f"{layer.checks:,}", did, layer.word, f"{layer.seconds:.1f}"


def _figures(layer: Layer) -> Iterator[str]:
    if layer.covered:
        done, total = map(sum, zip(*layer.covered.values(), strict=True))
        yield f"{done:,} of {total:,} {layer.name}"
    yield from (f"{count:,} {what}" for what, count in layer.did.items())
