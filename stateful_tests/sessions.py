"""Sessions between ``run_client`` and the publisher of the harness: what must hold at each end."""

from __future__ import annotations

import contextlib
import sqlite3

from model import stream
from model.counterexample import differences
from model.events import Apply, Checkpoint, State, ack_line, resume_line
from model.port import connect, one_line
from model.store import observe
from stateful_tests.guard import descriptors
from stateful_tests.playing import Hang, Playing
from stateful_tests.publisher import shown
from stateful_tests.receiver import Ended, Receiver, internet_sockets


class Sessions(Playing):
    """After each call: one connection was made and is closed, the store is closed, no task is left."""

    # --- the end ------------------------------------------------------------------------------------------------------

    def returns(self, last: int, total: int) -> None:
        """The session must end well."""
        ended, want = self.end(), (last, total)
        value = ended.value
        exact = isinstance(value, tuple) and value == want and all(type(each) is int for each in value)
        if ended.error or not exact:
            self.fail(f"run_client {ended}, must return {want}")

    def raises(self, *kinds: type[BaseException]) -> BaseException:
        """The session must end in an error of one of these types, or of any Exception at all."""
        ended, kinds = self.end(), kinds or (Exception,)
        if not isinstance(ended.error, kinds):
            names = " or ".join(kind.__name__ for kind in kinds) if kinds != (Exception,) else "an error"
            self.fail(f"run_client {ended}, must raise {names}")
        return ended.error

    def arrives(self, planted: BaseException) -> None:
        """The session must end in this very error."""
        ended = self.end()
        if ended.error is not planted:
            self.fail(f"run_client {ended}, must raise the very {type(planted).__name__} that its hook raised")

    def heard(self, last: int, *acks: int) -> None:
        """All that came over the connection must be this."""
        self.heard_exactly(resume_line(last) + b"".join(map(ack_line, acks)))

    def heard_exactly(self, want: bytes) -> None:
        """All that came over the connection must be these bytes."""
        if self.publisher.heard != want:
            self.fail(f"the publisher hears {shown(self.publisher.heard)} in all, must hear {shown(want)}")

    def end(self) -> Ended:
        """How the session ends. Nothing of it may be left, and no other may have begun."""
        receiver, publisher = self._running, self.publisher
        ended = self._ended()
        publisher.lines.append(f"thread.join()  # {ended}")
        if publisher.peer is None and not self.closed_doors and publisher.visited():
            publisher.accept()
        if not self.closed_doors and publisher.visited():
            self.fail("run_client connects a second time in one call")
        self._nothing_left(receiver)
        if publisher.peer is not None:
            self.hear_out()
            publisher.peer.close()
            publisher.peer = None
        if not receiver.release():
            self.fail("the event loop does not end after run_client", Hang)
        return ended

    def _nothing_left(self, receiver: Receiver) -> None:
        ended, peer = receiver.ended, self.publisher.peer
        ours = {peer.fileno()} if peer else set()
        if internet_sockets() - self._others - ours:
            self.fail(f"run_client {ended} and leaves its connection open")
        if descriptors(self.path):
            self.fail(f"run_client {ended} and leaves the store file open")
        if receiver.tasks_left:
            self.fail(f"run_client {ended} and leaves tasks behind: {', '.join(receiver.tasks_left)}")

    # --- the store ----------------------------------------------------------------------------------------------------

    def rows(self) -> State:
        """Every row, as an independent connection sees it."""
        try:
            with contextlib.closing(connect(self.path)) as con:
                return observe(con)
        except sqlite3.Error as error:
            self.fail(f"the store is left so that it cannot be read: {one_line(error)}")

    def holds(self, *deltas: int) -> None:
        """The store must hold these events, from 0 on, and nothing else."""
        self.agrees(events(*deltas))

    def agrees(self, want: State) -> None:
        """Every row of the store must be the model's."""
        if difference := differences(self.rows(), want):
            self.fail(f"run_client leaves {difference}")


def events(*deltas: int) -> State:
    """The rows once these events were processed, from 0 on."""
    state = stream.EMPTY
    for seq, delta in enumerate(deltas):
        state, _ = stream.step(state, Apply(seq, delta))
    return state


def last_and_total(state: State) -> tuple[int, int]:
    """What a session that leaves this state returns."""
    checkpoint: Checkpoint = state.checkpoint[0]
    return checkpoint.last, checkpoint.total
