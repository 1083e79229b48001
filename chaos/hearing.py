"""What is seen of a reception, from all sides: by its publisher, by its receiver, and in the file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from chaos.exchange import Exchange
from chaos.killer import Unanswered
from chaos.publisher import CAME, END, SAW
from chaos.receiver import ENDED, STANDS
from chaos.retelling import program
from chaos.sessions import Experiment
from model.counterexample import Violation
from model.events import event_line
from model.store import Store

SOON_S: Final = 1.0


# --- what is seen of one session --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """Of one session: what the publisher saw and how the connection ended; where the receiver stands; how it ended."""

    came: bool = False
    saw: list[bytes] = field(default_factory=list)
    end: str = ""
    stands: bool = False
    reply: str = ""
    replayed: tuple[list[bytes], str] | None = None

    @property
    def still(self) -> bool:
        """Whether nothing more comes unless somebody does something."""
        return bool(self.end or self.stands or (self.reply and not self.came))

    def __str__(self) -> str:
        lines = [line.decode("latin-1").rstrip("\n") for line in self.saw]
        return f"{', '.join(lines) or 'nothing'}{self.reply and f'; {self.reply}'}"


# --- one session after another ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Hearing:
    """The sessions of one experiment so far; ``calls`` grow into the program that a Violation shows."""

    experiment: Experiment
    exchange: Exchange
    store: Store
    calls: list[str] = field(default_factory=list)
    number: int = 0
    seen: Seen = field(default_factory=Seen)
    call: str = ""

    def begin(self) -> None:
        """A publisher that has its log, and no connection."""
        self.exchange.call()
        self.exchange.publisher("begin", self.experiment.log)
        self.exchange.answer("ready")

    def _hear(self, done: Callable[[], bool], *, whatever: bool = False) -> None:
        """Until that is so, or nothing more comes of itself; with ``whatever``, until that is so."""
        while not done() and (whatever or not self.seen.still):
            self._note(self.exchange.word())

    def _hear_lines(self, count: int) -> None:
        self._hear(lambda: len(self.seen.saw) >= count)

    def _hear_reply(self) -> None:
        """How ``run_client`` ended, if it has, or is about to: for an account of what is wrong already."""
        with contextlib.suppress(Unanswered):
            while self.seen.end and not self.seen.reply and self.exchange.speaks(SOON_S):
                self._note(self.exchange.word())

    def _note(self, word: tuple[str, list[Any]]) -> None:
        seen = self.seen
        match word:
            case ("publisher", [str(what), int(number), _]) if what == CAME:
                if seen.came or number != self.number:
                    self._fail(f"{self._run} connects again by itself")
                seen.came = True
            case ("publisher", [str(what), int(number), str(text)]) if number == self.number and what == SAW:
                seen.saw.append(text.encode("latin-1"))
            case ("publisher", [str(what), int(number), str(how)]) if number == self.number and what == END:
                seen.end = how
            case ("publisher", ["replayed", list(sent), str(how)]):
                seen.replayed = [event_line(*event) for event in sent], how
            case ("receiver", [str(what), *_]) if what == STANDS:
                seen.stands = True
            case ("receiver", [str(what), str(reply)]) if what == ENDED:
                seen.reply = reply
            case _:
                raise Unanswered(f"the {word[0]} says {word[1]}")

    def _agree_seen(self, must: Sequence[bytes]) -> None:
        """The publisher has seen exactly this."""
        saw = self.seen.saw
        for number, want in enumerate(must):
            if number >= len(saw):
                self._hear_reply()
                ended = f" ({self.seen.reply})" if self.seen.reply else ""
                self._fail(f"{self._run} sends nothing where it must send {shown(want)}{ended}")
            if saw[number] != want:
                self._fail(f"{self._run} sends {shown(saw[number])}, must send {shown(want)}")
        if len(saw) > len(must):
            self._fail(f"{self._run} sends {shown(saw[len(must)])}, must send nothing there")

    @property
    def _run(self) -> str:
        return f"run_client of receiver {self.number}"

    def _agree(self, when: str, difference: str) -> None:
        if difference:
            self._fail(f"receiver {self.number}, {when}: {difference}")

    def _fail(self, what: str) -> NoReturn:
        last = [f"{self.call}  # {self.seen}"]
        raise Violation(what, [f"# {self.experiment.name}", *program([*self.calls, *last])])


def shown(line: bytes) -> str:
    """As a string of Python, whatever it is."""
    return repr(line)[1:]
