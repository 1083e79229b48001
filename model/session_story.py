"""A path through the world of publisher, wire and receiver, told one move a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from model.contract import Raise, Reply
from model.events import RESYNC_REQUIRED
from model.explorer import Step
from model.session import (
    Answer,
    Connect,
    Drop,
    Forget,
    Garble,
    Hear,
    Lie,
    Move,
    Publish,
    Receive,
    Resend,
    Send,
    Session,
    Skip,
    Trim,
    Wire,
)

Moved = Step[Session, Move, Reply]


def story(path: Sequence[Moved]) -> list[str]:
    """One line for each move, and behind it what the receiver's store holds then."""
    told = [f"{number:>2}  {_told(step)}" for number, step in enumerate(path, 1)]
    width = max(map(len, told), default=0)
    return [f"{text:{width}}  # {_held(step.after)}" for text, step in zip(told, path, strict=True)]


def _held(state: Session) -> str:
    (checkpoint,) = state.store.checkpoint
    return f"last {checkpoint.last}, total {checkpoint.total}"


def _told(step: Moved) -> str:
    before, after = step.before, step.after
    match step.op:
        case Publish():
            return f"event {after.newest} is published"
        case Trim():
            return f"the publisher drops event {before.first}"
        case Forget():
            return f"the publisher loses event {before.newest}"
        case Connect():
            return f"a receiver connects and says {_first(_wire(after).back)}"
        case Drop():
            return "the connection breaks"
        case Hear():
            return f"the publisher reads {_first(_wire(before).back)}{_refused(step.reply)}"
        case Receive():
            return _received(step, step.op)
        case Answer():
            return f"the receiver writes {_text(_wire(after).back[-1])}"
        case Send() | Resend() | Lie() | Skip() | Garble():
            return _said(step, step.op)
        case _:
            assert_never(step.op)


def _said(step: Moved, move: Send | Resend | Lie | Skip | Garble) -> str:
    if step.reply == RESYNC_REQUIRED:
        return f"the publisher cannot go on{_refused(step.reply)}"
    how = {Send: "", Resend: " again", Lie: ", another delta than before", Skip: " too early", Garble: ", no line"}
    return f"the publisher sends {_text(_wire(step.after).lines[-1])}{how[type(move)]}"


def _received(step: Moved, move: Receive) -> str:
    does = f"the receiver reads {_first(_wire(step.before).lines)}"
    if move.hook is not None:
        return f"{does} and dies in {move.hook}"
    if isinstance(step.reply, Raise):
        return f"{does}: {step.reply.error}, the connection ends"
    return f"{does}: {'known' if step.after.store == step.before.store else 'processed'}, and owes an ACK"


def _refused(reply: Reply) -> str:
    return ": ResyncRequired, the connection ends" if reply == RESYNC_REQUIRED else ""


def _wire(state: Session) -> Wire:
    return state.wire or Wire()


def _first(lines: tuple[bytes, ...]) -> str:
    return _text(lines[0])


def _text(line: bytes) -> str:
    return line.decode().rstrip("\n")
