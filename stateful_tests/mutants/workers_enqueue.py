"""Wrong workers: enqueue."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_RACE: Final = "what is written is read inside the same BEGIN IMMEDIATE"

ENQUEUE: Final = (
    # --- enqueue
    Mutant(
        "a known id is in the queue whatever its quantity",
        "the same id with another quantity is a Conflict",
        (('elif known != (job["qty"],):', "elif False:"),),
    ),
    Mutant(
        "the same job twice is a Conflict",
        "the same id and quantity is False",
        (('elif known != (job["qty"],):', "else:"),),
    ),
    Mutant(
        "a larger quantity alone is a Conflict",
        "the same id with another quantity is a Conflict",
        (('elif known != (job["qty"],):', 'elif known < (job["qty"],):'),),
    ),
    Mutant(
        "a Conflict is answered with False",
        "the same id with another quantity is a Conflict",
        (("            raise Conflict(f", "            return bool(0) and str(f"),),
    ),
    Mutant(
        "a job that is known gets a new budget",
        "the row of a known job stays as it is",
        (
            (
                "        return known is None\n\n",
                (
                    "        else:\n"
                    '            con.execute("UPDATE jobs SET max_attempts = :max_attempts WHERE id = :id", job)\n'
                    "        return known is None\n"
                    "\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a job that is settled is put in again",
        "the row of a known job stays as it is, whatever its status",
        (
            (
                "        known = _row(con,",
                (
                    '        con.execute("DELETE FROM jobs WHERE id = :id AND qty = :qty AND status IN'
                    " ('done', 'dead')\", job)\n"
                    "        known = _row(con,"
                ),
            ),
        ),
    ),
    Mutant(
        "only an open job is known",
        "the same id and quantity is False, whatever the status",
        (
            (
                '"SELECT qty FROM jobs WHERE id = :id", job)',
                "\"SELECT qty FROM jobs WHERE id = :id AND status <> 'done'\", job)",
            ),
        ),
    ),
    Mutant(
        "an event may have further keys",
        "an event has exactly id and qty",
        (
            (
                '_exact_dict("event", event, "id", "qty")["id"]',
                'event["id"] if type(event) is dict and event.keys() >= {"id", "qty"} else None',
            ),
        ),
    ),
    Mutant(
        "an event's quantity is taken out of it",
        "the arguments are never modified",
        (('_exact_int("qty", event["qty"])', '_exact_int("qty", event.pop("qty"))'),),
    ),
    Mutant(
        "an event's quantity is not judged",
        "an event's qty is an exact int from 1 to 1000",
        (('_exact_int("qty", event["qty"])', 'event["qty"]'),),
    ),
    Mutant(
        "the budget of a known job is not judged",
        "all arguments are judged first, on every path",
        (
            ('"max_attempts": _exact_int("max_attempts", max_attempts),', '"max_attempts": max_attempts,'),
            (
                "            con.execute(_INSERT, job)",
                '            _exact_int("max_attempts", max_attempts)\n            con.execute(_INSERT, job)',
            ),
        ),
    ),
    Mutant(
        "the time of an enqueue is not judged",
        "now_ms is an exact int in its range",
        (
            (
                '        "qty": _exact_int("qty", event["qty"]),\n        "now_ms": _exact_int("now_ms", now_ms),',
                '        "qty": _exact_int("qty", event["qty"]),\n        "now_ms": now_ms,',
            ),
        ),
    ),
    Mutant(
        "an enqueue gives five attempts by default",
        "max_attempts is 3 by default",
        (("max_attempts: int = 3", "max_attempts: int = 5"),),
    ),
    Mutant(
        "a new job has used an attempt",
        "a new job has attempts 0",
        (("'pending', 0, :max_attempts, 0,", "'pending', 1, :max_attempts, 0,"),),
    ),
    Mutant(
        "a new job has the token 1",
        "a new job has token 0",
        (("'pending', 0, :max_attempts, 0,", "'pending', 0, :max_attempts, 1,"),),
    ),
    Mutant(
        "a new job is available at its deadline",
        "a new job is available at now_ms",
        ((":now_ms, :now_ms + :ttl_ms)", ":now_ms + :ttl_ms, :now_ms + :ttl_ms)"),),
    ),
    Mutant(
        "a new job lives one ms less",
        "the deadline is now_ms + ttl_ms",
        ((":now_ms, :now_ms + :ttl_ms)", ":now_ms, :now_ms + :ttl_ms - 1)"),),
    ),
    Mutant(
        "what was put in is remembered beside the file",
        "the file alone says what is in the queue",
        (
            (
                "    def insert() -> bool:\n",
                (
                    "    seen = globals().setdefault('_SEEN', set())\n"
                    "    place = (con.execute('PRAGMA database_list').fetchone()[-1], *job.values())\n"
                    "\n"
                    "    def insert() -> bool:\n"
                    "        if place in seen:\n"
                    "            return False\n"
                    "        seen.add(place)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a known job is looked up before the lock",
        _RACE,
        (
            (
                '    def insert() -> bool:\n        known = _row(con, "SELECT qty FROM jobs WHERE id = :id", job)\n',
                '    known = _row(con, "SELECT qty FROM jobs WHERE id = :id", job)\n\n    def insert() -> bool:\n',
            ),
        ),
    ),
    Mutant(
        "enqueue looks first whether the job is there",
        "what is written is read inside the same BEGIN IMMEDIATE",
        (
            (
                "    return _write(con, insert)",
                (
                    '    look = "SELECT qty FROM jobs WHERE id = :id"\n'
                    '    if not con.in_transaction and _row(con, look, job) == (job["qty"],):\n'
                    "        return False\n"
                    "    return _write(con, insert)"
                ),
            ),
        ),
        equivalent="a job is never deleted and keeps its quantity, and one that is not there is looked for again",
    ),
)
