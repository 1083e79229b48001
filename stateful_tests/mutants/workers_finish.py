"""Wrong workers: which ticket finishes a job, and what becomes of it."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_HOLDS: Final = "finish is False where the row differs from the ticket"
_LATE: Final = "finish is False once the lease or the deadline has passed"
_RETRY: Final = "a retry needs an attempt first, then time"
_AVAILABLE: Final = "available_at is now_ms + delay_ms when pending, otherwise now_ms"
_RACE: Final = "what is written is read inside the same BEGIN IMMEDIATE"

FINISH: Final = (
    # --- which ticket holds
    Mutant("a job that is not leased can be finished", _HOLDS, (("AND status = 'leased' AND qty", "AND qty"),)),
    Mutant(
        "the same job ends finished and failed",
        _HOLDS,
        (
            ("AND status = 'leased' AND qty", "AND qty"),
            ("available_at = :available_at,\n  owner = NULL, lease_until = NULL\n", "available_at = :available_at\n"),
        ),
        seen="rails/solid_queue#589",
    ),
    Mutant("another quantity finishes the job", _HOLDS, (("'leased' AND qty = :qty AND", "'leased' AND"),)),
    Mutant("another owner finishes the job", _HOLDS, (("qty = :qty AND owner = :owner AND", "qty = :qty AND"),)),
    Mutant(
        "an old token finishes the job",
        _HOLDS,
        (("AND owner = :owner AND token = :token\n", "AND owner = :owner\n"),),
        seen="aegra/aegra#547",
    ),
    Mutant("a token ahead of the row's finishes the job", _HOLDS, (("AND token = :token\n", "AND token <= :token\n"),)),
    Mutant(
        "another attempt finishes the job",
        _HOLDS,
        (("  AND attempts = :attempt AND lease_until", "  AND lease_until"),),
    ),
    Mutant(
        "another lease end finishes the job", _HOLDS, (("AND lease_until = :lease_until AND :now_ms", "AND :now_ms"),)
    ),
    Mutant(
        "only the owner is compared",
        _HOLDS,
        (
            ("AND qty = :qty AND owner = :owner AND token = :token\n", "AND owner = :owner\n"),
            ("  AND attempts = :attempt AND lease_until = :lease_until AND", "  AND"),
        ),
        seen="aegra/aegra#547",
    ),
    Mutant("a lease is over one ms late", _LATE, ((":now_ms < lease_until AND", ":now_ms <= lease_until AND"),)),
    Mutant(
        "a late finish is taken while no one else claims",
        _LATE,
        (("AND :now_ms < lease_until AND :now_ms < deadline", ""),),
        seen="imtms/tagent-core#56",
    ),
    Mutant("a job past its deadline can be finished", _LATE, ((' AND :now_ms < deadline"""', '"""'),)),
    Mutant(
        "a job at its deadline can be finished", _LATE, ((' AND :now_ms < deadline"""', ' AND :now_ms <= deadline"""'),)
    ),
    Mutant(
        "a finish counts its delay against the lease",
        _LATE,
        (
            (
                "        row = _row(con, _HELD, held)\n",
                '        row = _row(con, _HELD, {**held, "now_ms": now_ms + delay_ms})\n',
            ),
        ),
    ),
    Mutant(
        "a job that is not there is a ValueError",
        "finish of no such job is False",
        (
            (
                "        if row is None:\n            return False\n",
                (
                    "        if row is None:\n"
                    '            if _row(con, "SELECT 1 FROM jobs WHERE id = :id", held) is None:\n'
                    '                raise ValueError("no such job")\n'
                    "            return False\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a refused finish is None",
        "finish returns False",
        (
            (
                "        if row is None:\n            return False\n",
                "        if row is None:\n            return None  # type: ignore[return-value]\n",
            ),
        ),
    ),
    Mutant(
        "a refused finish frees the job",
        "a refused finish changes nothing",
        (
            (
                "        if row is None:\n            return False\n",
                (
                    "        if row is None:\n"
                    "            con.execute(\"UPDATE jobs SET status = 'pending', owner = NULL,"
                    " lease_until = NULL WHERE id = :id AND status = 'leased' AND lease_until <= :now_ms\", held)\n"
                    "            return False\n"
                ),
            ),
        ),
        seen="riverqueue/river#1302",
    ),
    Mutant(
        "the ticket is compared before the lock",
        _RACE,
        (
            (
                "    def settle() -> str | bool:\n        row = _row(con, _HELD, held)\n",
                "    row = _row(con, _HELD, held)\n\n    def settle() -> str | bool:\n",
            ),
        ),
        seen="cofin/litestar-queues#36",
    ),
    Mutant(
        "a finish that changed no row is taken for one",
        _RACE,
        (
            ("        row = _row(con, _HELD, held)\n", "        row = early\n"),
            (
                "    def settle() -> str | bool:\n",
                "    early = _write(con, lambda: _row(con, _HELD, held))\n\n    def settle() -> str | bool:\n",
            ),
        ),
        seen="riverqueue/river#1302",
    ),
    # --- what becomes of it
    Mutant(
        "a retry after the last attempt waits",
        _RETRY,
        (
            (
                "SELECT attempts >= max_attempts, deadline FROM jobs",
                "SELECT attempts > max_attempts, deadline FROM jobs",
            ),
        ),
    ),
    Mutant(
        "a retry may wait until its deadline",
        _RETRY,
        (("late=now_ms + delay_ms >= deadline", "late=now_ms + delay_ms > deadline"),),
    ),
    Mutant(
        "a retry does not reckon its delay",
        _RETRY,
        (("late=now_ms + delay_ms >= deadline", "late=now_ms >= deadline"),),
    ),
    Mutant(
        "a retry is never too late",
        _RETRY,
        (('("dead", "deadline") if late else ("pending", "retry")', '("pending", "retry")'),),
    ),
    Mutant("a retry is never exhausted", _RETRY, (('    if exhausted:\n        return "dead", "exhausted"\n', ""),)),
    Mutant(
        "a retry that is late and exhausted is late",
        _RETRY,
        (("    if exhausted:\n", "    if exhausted and not late:\n"),),
    ),
    Mutant("ok leaves a reason", "a done job has no reason", (('return "done", None', 'return "done", "ok"'),)),
    Mutant(
        "ok is done only in time for a retry",
        "ok is done",
        (('    if outcome == "ok":\n', '    if outcome == "ok" and not late:\n'),),
    ),
    Mutant(
        "a permanent failure has no reason",
        "a permanent failure is dead/permanent",
        (('return "dead", "permanent"', 'return "dead", None'),),
    ),
    Mutant(
        "a permanent failure is tried again",
        "a permanent failure is dead/permanent",
        (('    if outcome == "permanent":\n', '    if outcome == "permanent" and exhausted:\n'),),
    ),
    Mutant("a late retry is exhausted", _RETRY, (('("dead", "deadline") if late', '("dead", "exhausted") if late'),)),
    Mutant("a retry has no reason", "a retry is pending/retry", (('("pending", "retry")\n', '("pending", None)\n'),)),
    Mutant(
        "a settled job is available after the delay",
        _AVAILABLE,
        (('now_ms + delay_ms if status == "pending" else now_ms\n', "now_ms + delay_ms\n"),),
    ),
    Mutant(
        "a retry is available at once",
        _AVAILABLE,
        (('now_ms + delay_ms if status == "pending" else now_ms\n', "now_ms\n"),),
    ),
    Mutant(
        "a settled job keeps available_at",
        _AVAILABLE,
        (
            (
                "reason = :reason, available_at = :available_at,\n",
                (
                    "reason = :reason, available_at = CASE :status WHEN 'pending' THEN :available_at"
                    " ELSE available_at END,\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a settled job keeps its owner",
        "a settled job has no owner",
        (
            (
                "available_at = :available_at,\n  owner = NULL, lease_until = NULL\n",
                "available_at = :available_at,\n  lease_until = NULL\n",
            ),
        ),
    ),
    Mutant(
        "a settled job keeps its lease",
        "a settled job has no lease_until",
        (
            (
                "available_at = :available_at,\n  owner = NULL, lease_until = NULL\n",
                "available_at = :available_at,\n  owner = NULL\n",
            ),
        ),
    ),
    Mutant(
        "a retry gives its attempt back",
        "finish changes nothing else of the row",
        (
            (
                "SET status = :status, reason = :reason, available_at",
                "SET status = :status, reason = :reason, attempts = attempts - (:status = 'pending'), available_at",
            ),
        ),
        seen="jamjet-labs/jamjet#119",
    ),
    Mutant(
        "a finish counts the token on",
        "finish changes nothing else of the row",
        (
            (
                "SET status = :status, reason = :reason, available_at",
                "SET status = :status, reason = :reason, token = token + 1, available_at",
            ),
        ),
    ),
    Mutant(
        "a retry sets the token back",
        "finish changes nothing else of the row",
        (
            (
                "SET status = :status, reason = :reason, available_at",
                "SET status = :status, reason = :reason, token = token - (:status = 'pending'), available_at",
            ),
        ),
        seen="jamjet-labs/jamjet#122",
    ),
    Mutant(
        "a finish is its outcome",
        "finish returns the new status",
        (
            (
                '        _reach(fault, "after-finish")\n        return status\n',
                '        _reach(fault, "after-finish")\n        return outcome\n',
            ),
        ),
    ),
    # --- its hooks and values
    Mutant(
        "after-finish is reached before the change",
        "after-finish comes after the UPDATE",
        (
            (
                '        con.execute(_SETTLE, settled)\n        _reach(fault, "after-finish")\n',
                '        _reach(fault, "after-finish")\n        con.execute(_SETTLE, settled)\n',
            ),
        ),
    ),
    Mutant(
        "after-finish is never reached",
        "after-finish comes before the COMMIT",
        (('        _reach(fault, "after-finish")\n', ""),),
    ),
    Mutant(
        "after-finish is reached where the ticket is stale",
        "no hook is called where the result is False",
        (
            (
                "        if row is None:\n            return False\n",
                '        if row is None:\n            _reach(fault, "after-finish")\n            return False\n',
            ),
        ),
    ),
    Mutant(
        "a finish's hooks are not called after its commit",
        "after-commit comes after the COMMIT",
        (("return _write(con, settle, fault)", "return _write(con, settle)"),),
    ),
    Mutant(
        "a ticket is not judged",
        "a ticket of the wrong form is a ValueError",
        (("held = {**_ticket(ticket), ", "held = {**ticket, "),),
    ),
    Mutant(
        "a ticket is changed by its finish",
        "the arguments are never modified",
        (
            (
                'held = {**_ticket(ticket), "now_ms": _exact_int("now_ms", now_ms)}',
                'held = _ticket(ticket)\n    held["now_ms"] = _exact_int("now_ms", now_ms)',
            ),
        ),
    ),
    Mutant(
        "the time of a finish is not judged",
        "now_ms is an exact int in its range",
        (
            (
                'held = {**_ticket(ticket), "now_ms": _exact_int("now_ms", now_ms)}',
                'held = {**_ticket(ticket), "now_ms": now_ms}',
            ),
        ),
    ),
    Mutant(
        "a subclass of str is an outcome",
        "the outcome is exactly a str",
        (("if type(outcome) is not str or outcome not in", "if outcome not in"),),
    ),
    Mutant(
        "any outcome is a retry", "the outcome is ok, retry or permanent", ((" or outcome not in _OUTCOMES:", ":"),)
    ),
    Mutant(
        "the delay of a finish is not judged",
        "delay_ms is an exact int in its range",
        (('    delay_ms = _exact_int("delay_ms", delay_ms)\n', ""),),
    ),
    Mutant(
        "the delay is judged for a retry alone",
        "values are judged on every path",
        (
            (
                '    delay_ms = _exact_int("delay_ms", delay_ms)\n',
                (
                    '    if outcome == "retry":\n'
                    '        _exact_int("delay_ms", delay_ms)\n'
                    "    else:\n"
                    "        delay_ms = 0\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the delay is judged after BEGIN",
        "values are judged before any transaction",
        (
            ('    delay_ms = _exact_int("delay_ms", delay_ms)\n', ""),
            (
                "    def settle() -> str | bool:\n",
                '    def settle() -> str | bool:\n        _exact_int("delay_ms", delay_ms)\n',
            ),
        ),
    ),
    Mutant(
        "a retry waits a tenth of a second by default",
        "delay_ms is 0 by default",
        (("delay_ms: int = 0,", "delay_ms: int = 100,"),),
    ),
)
