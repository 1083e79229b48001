"""The lease queue's contract as data: bounds, schema, rows, operations, replies and the one table of fault hooks.

What the event stream has in common with it is here too: kinds, replies, deaths. All times are integer milliseconds on
one shared time base. An operation is a frozen value: the model steps it, an implementation performs it, Hypothesis
draws it, and a program prints it. ``repr`` of an operation is its source text.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args

# --- kinds ------------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What a module under test can be: how programs name it and its file, and what it must offer."""

    name: str
    opener: str
    file: str
    functions: tuple[str, ...]
    errors: tuple[str, ...]


WORKER: Final = Kind(
    "worker",
    "open_queue",
    "queue.db",
    ("retry_delay", "open_queue", "enqueue", "claim", "finish", "redrive", "run_once", "run_file"),
    ("Conflict", "Retryable", "Permanent", "BadAck"),
)
CLIENT: Final = Kind(
    "client",
    "open_store",
    "store.db",
    ("open_store", "parse_line", "apply_event", "consume_line", "replay", "run_client"),
    ("BadLine", "Conflict", "Gap", "ResyncRequired"),
)
KINDS: Final = {kind.name: kind for kind in (WORKER, CLIENT)}

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
    """``enqueue``: a job, with ``ttl_ms`` milliseconds from ``now_ms`` to its deadline. Bounds: ``BOUNDS``."""

    id: str
    qty: int
    now_ms: int
    ttl_ms: int
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Claim:
    """``claim``: the first job that is due at ``now_ms``, for ``lease_ms`` milliseconds. Bounds: ``BOUNDS``."""

    owner: str
    now_ms: int
    lease_ms: int = DEFAULT_LEASE_MS


@dataclass(frozen=True, slots=True)
class Finish:
    """``finish``: what came of a ticket; after ``retry`` it is due again ``delay_ms`` milliseconds from ``now_ms``.

    ``outcome`` is one of ``OUTCOMES``. Bounds: ``BOUNDS``.
    """

    ticket: Ticket
    outcome: str
    now_ms: int
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Redrive:
    """``redrive``: a dead job starts again, with ``ttl_ms`` milliseconds from ``now_ms``. Bounds: ``BOUNDS``."""

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


P_co = TypeVar("P_co", covariant=True)
"""The plain operations of one of the two contracts."""


@dataclass(frozen=True, slots=True)
class Crash(Generic[P_co]):
    """The operation dies in a fault hook: the hook raises, or its process is killed there.

    If the operation does not reach the hook, it runs as if it had none.
    """

    op: P_co
    hook: str
    error: Planted | Literal["SIGKILL"] = "Exception"


@dataclass(frozen=True, slots=True)
class Blocked(Generic[P_co]):
    """The operation runs while another connection holds its read lock, so that no COMMIT of a change can succeed."""

    op: P_co


@dataclass(frozen=True, slots=True)
class Reopen:
    """The connection is closed and the module opens the same file again."""


def plain(op: Any) -> Any:  # noqa: ANN401 - an operation of either contract
    """The operation without the crash or the reader that befalls it."""
    return op.op if isinstance(op, Crash | Blocked) else op


Plain = Enqueue | Claim | Finish | Redrive
Op = Plain | RunOnce | Crash[Plain] | Blocked[Plain] | Reopen

FORMS: Final = (*get_args(Plain), RunOnce, Crash, Blocked, Reopen)


def parse(text: str) -> Op:
    """The operation that ``text``, its ``repr``, stands for; ValueError for any other text. Nothing is executed."""
    op: Op = parse_one_of(FORMS, text, Ticket)
    return op


def parse_one_of(forms: tuple[type, ...], text: str, *parts: type) -> Any:  # noqa: ANN401 - one of the forms
    """The value of one of these forms, of which ``parts`` may be parts, that ``text`` stands for; or ValueError."""
    named = {form.__name__: form for form in (*forms, *parts)}
    try:
        value = _value(ast.parse(text, mode="eval").body, named)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an operation: {error}") from error
    if not isinstance(value, forms):
        raise ValueError(f"not an operation: {text}")  # noqa: TRY004 - the text is wrong, not its type
    return value


def _value(node: ast.expr, forms: dict[str, type]) -> object:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in forms:
            named = {str(keyword.arg): _value(keyword.value, forms) for keyword in node.keywords}
            return forms[name](*(_value(each, forms) for each in node.args), **named)
        case ast.Tuple():
            return tuple(_value(each, forms) for each in node.elts)
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
    """The operation returned this."""

    value: bool | str | bytes | Ticket | Ran | Odd | None


@dataclass(frozen=True, slots=True)
class Raise:
    """It raised this error: the contract's name of it, or the text that SQLite's has."""

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
    op: type
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


def by_op(hooks: tuple[Hook, ...]) -> dict[type, tuple[Hook, ...]]:
    """The hooks of each operation, in calling order."""
    return {op: tuple(hook for hook in hooks if hook.op is op) for op in dict.fromkeys(hook.op for hook in hooks)}


def called(op: object, hooks: tuple[Hook, ...]) -> tuple[Hook, ...]:
    """The hooks that ``op``, whose own are ``hooks``, calls where it makes its change.

    A crash reaches none beyond its own; a blocked operation none beyond the COMMIT that fails.
    """
    if isinstance(op, Blocked):
        return tuple(hook for hook in hooks if not hook.kept)
    names = [hook.name for hook in hooks]
    if isinstance(op, Crash) and op.hook in names:
        return hooks[: names.index(op.hook) + 1]
    return hooks


_HOOKS_OF: Final = by_op(FAULT_HOOKS)


def hooks_of(op: Op) -> tuple[Hook, ...]:
    """The hooks of an operation that is neither crashed nor blocked, in calling order."""
    return _HOOKS_OF.get(type(op), ())
