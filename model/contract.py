"""The contract as data: bounds, schema, rows, operations, replies and the one table of fault hooks.

All times are integer milliseconds on one shared time base. An operation is a frozen value: the model steps it, an
implementation performs it, Hypothesis draws it, and a program prints it. ``repr`` of an operation is its source text.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

# --- bounds -----------------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """Both ends are allowed: ``low <= value <= high``."""

    low: int
    high: int

    def allows(self, value: int) -> bool:
        return self.low <= value <= self.high


BOUNDS: Final = {
    "qty": Bound(1, 1000),
    "ttl_ms": Bound(1, 60_000),
    "max_attempts": Bound(1, 16),
    "lease_ms": Bound(1, 60_000),
    "delay_ms": Bound(0, 60_000),
    "now_ms": Bound(0, 10**15 - 60_000),
    "token": Bound(1, 10**15),
    "attempt": Bound(1, 16),
    "lease_until": Bound(1, 10**15),
    "base_ms": Bound(1, 60_000),
    "cap_ms": Bound(1, 60_000),
}
"""Every bounded integer by the name it has in the contract; a name means the same bound wherever it stands.
``cap_ms`` is also at least ``base_ms``."""

IDENTIFIER: Final = r"[A-Za-z0-9_-]{1,64}"
"""The whole of an identifier: id, owner, job_id and note."""

OUTCOMES: Final = ("ok", "retry", "permanent")
RETRY_BASE_MS: Final = 100
RETRY_CAP_MS: Final = 1000
DEFAULT_LEASE_MS: Final = 1000
DEFAULT_MAX_ATTEMPTS: Final = 3

SCHEMA: Final = {
    "jobs": """\
CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('pending','leased','done','dead')),
  attempts INTEGER NOT NULL, max_attempts INTEGER NOT NULL, token INTEGER NOT NULL,
  available_at INTEGER NOT NULL, deadline INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER, reason TEXT)""",
    "redrives": """\
CREATE TABLE redrives (seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL, note TEXT NOT NULL)""",
}

# --- rows -------------------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """One row of ``jobs``, column by column."""

    seq: int
    id: str
    qty: int
    status: str
    attempts: int
    max_attempts: int
    token: int
    available_at: int
    deadline: int
    owner: str | None
    lease_until: int | None
    reason: str | None


class Audit(NamedTuple):
    """One row of ``redrives``, column by column."""

    seq: int
    id: str
    token: int
    at_ms: int
    note: str


class State(NamedTuple):
    """All rows of both tables, each in the order of its ``seq``."""

    jobs: tuple[Job, ...] = ()
    redrives: tuple[Audit, ...] = ()


# --- operations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a claim hands out and a finish must show: six keys, no more."""

    id: str
    qty: int
    owner: str
    token: int
    attempt: int
    lease_until: int


@dataclass(frozen=True, slots=True)
class Enqueue:
    id: str
    qty: int
    now_ms: int
    ttl_ms: int
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Claim:
    owner: str
    now_ms: int
    lease_ms: int = DEFAULT_LEASE_MS


@dataclass(frozen=True, slots=True)
class Finish:
    ticket: Ticket
    outcome: str
    now_ms: int
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Redrive:
    job_id: str
    now_ms: int
    ttl_ms: int
    note: str


Send = Literal["ok", "retryable", "permanent", "bad-ack", "error"]
"""What a send does: returns True, raises Retryable, raises Permanent, returns anything else, raises anything else."""


@dataclass(frozen=True, slots=True)
class RunOnce:
    """``run_once`` with what its clock reads and what its send does; ``meanwhile`` happens inside the send."""

    owner: str
    first_ms: int
    second_ms: int
    send: Send = "ok"
    jitter: float = 1.0
    lease_ms: int = DEFAULT_LEASE_MS
    meanwhile: tuple[Plain, ...] = ()


Planted = Literal["Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"]


@dataclass(frozen=True, slots=True)
class Crash:
    """The operation dies in a fault hook: the hook raises, or its process is killed there.

    If the operation does not reach the hook, it runs as if it had none.
    """

    op: Plain
    hook: str
    error: Planted | Literal["SIGKILL"] = "Exception"


@dataclass(frozen=True, slots=True)
class Blocked:
    """The operation runs while another connection holds its read lock, so that no COMMIT of a change can succeed."""

    op: Plain


@dataclass(frozen=True, slots=True)
class Reopen:
    """The connection is closed and ``open_queue`` opens the same file again."""


Plain = Enqueue | Claim | Finish | Redrive
Op = Plain | RunOnce | Crash | Blocked | Reopen

_FORMS: Final = {form.__name__: form for form in (Ticket, *get_args(Op))}


def parse(text: str) -> Op:
    """The operation that ``text``, its ``repr``, stands for; ValueError for any other text. Nothing is executed."""
    try:
        op = _value(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an operation: {error}") from error
    if not isinstance(op, Op):
        raise ValueError(f"not an operation: {text}")  # noqa: TRY004 - the text is wrong, not its type
    return op


def _value(node: ast.expr) -> object:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _FORMS:
            named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
            return _FORMS[name](*map(_value, node.args), **named)
        case ast.Tuple():
            return tuple(map(_value, node.elts))
    return ast.literal_eval(node)


# --- replies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ran:
    """What ``run_once`` returns when there was a job; ``status`` is ``stale`` where the finish was refused."""

    id: str
    token: int
    status: str


@dataclass(frozen=True, slots=True)
class Odd:
    """A value that no operation may return, as its ``repr``; the model never says it."""

    text: str


@dataclass(frozen=True, slots=True)
class Return:
    value: bool | str | Ticket | Ran | Odd | None


@dataclass(frozen=True, slots=True)
class Raise:
    error: str


Reply = Return | Raise

REFUSED: Final = Raise("ValueError")
CONFLICT: Final = Raise("Conflict")
BAD_ACK: Final = Raise("BadAck")
PLANTED: Final = Raise("the very error that was planted")
LOCKED: Final = Raise("database is locked")

# --- fault hooks ------------------------------------------------------------------------------------------------------


class Hook(NamedTuple):
    """Where an operation can die, and whether its change is then kept."""

    name: str
    op: type[Plain]
    kept: bool


FAULT_HOOKS: Final = (
    Hook("after-claim", Claim, kept=False),
    Hook("after-commit", Claim, kept=True),
    Hook("after-finish", Finish, kept=False),
    Hook("after-commit", Finish, kept=True),
    Hook("after-audit", Redrive, kept=False),
    Hook("after-redrive", Redrive, kept=False),
    Hook("after-commit", Redrive, kept=True),
)
"""In the order in which each operation reaches them. The model's crash rule, the stateful rules and the kill matrix
are driven by this table alone."""


_HOOKS_OF: Final[dict[type, tuple[Hook, ...]]] = {
    op: tuple(hook for hook in FAULT_HOOKS if hook.op is op) for op in get_args(Plain)
}


def hooks_of(op: Op) -> tuple[Hook, ...]:
    """The hooks of an operation that is neither crashed nor blocked, in calling order."""
    return _HOOKS_OF.get(type(op), ())
