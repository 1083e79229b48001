"""Wrong workers: which job a claim chooses."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_DUE: Final = "a job is due from available_at on, a leased one from lease_until on"
_LIVE: Final = "a running lease is never cut short"
_ORDER: Final = "of the due jobs the lowest seq comes first"
_RACE: Final = "what is written is read inside the same BEGIN IMMEDIATE"

CLAIM: Final = (
    # --- the choice
    Mutant(
        "a file made by someone else is walked in buckets",
        "a queue file made by someone else works as well",
        (("WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = 'jobs_by_due')", "WHEN 1"),),
        equivalent="the walk finds the same first bucket with a due job, only in more time",
    ),
    Mutant(
        "a job is due one ms late",
        _DUE,
        (("WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >=", "WHERE {_OPEN} AND {_DUE} < :now_ms AND seq >="),),
    ),
    Mutant(
        "a bucket is due one ms late", _DUE, (("n AND {_DUE} <= :now_ms LIMIT 1", "n AND {_DUE} < :now_ms LIMIT 1"),)
    ),
    Mutant(
        "a job is due one ms early",
        _DUE,
        (("WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >=", "WHERE {_OPEN} AND {_DUE} <= :now_ms + 1 AND seq >="),),
    ),
    Mutant(
        "any open job of a bucket with a due one is claimed",
        _LIVE,
        (("WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >=", "WHERE {_OPEN} AND seq >="),),
    ),
    Mutant("the youngest due job comes first", _ORDER, (("ORDER BY seq LIMIT 1", "ORDER BY seq DESC LIMIT 1"),)),
    Mutant("the longest due job comes first", _ORDER, (("ORDER BY seq LIMIT 1", "ORDER BY {_DUE}, seq LIMIT 1"),)),
    Mutant(
        "a pending job comes before an expired lease",
        _ORDER,
        (("ORDER BY seq LIMIT 1", "ORDER BY status = 'leased', seq LIMIT 1"),),
    ),
    Mutant(
        "only the first open job is looked at",
        _ORDER,
        (
            (
                "WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >=",
                "WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq = (SELECT min(seq) FROM jobs WHERE {_OPEN}) AND seq >=",
            ),
        ),
    ),
    Mutant(
        "only the first bucket is looked at",
        _ORDER,
        (("THEN (SELECT n << 9 FROM bucket {_WITH_DUE_JOB})", "THEN NULL"),),
    ),
    Mutant(
        "a later bucket is looked for at the wrong place",
        _ORDER,
        (("THEN (SELECT n << 9 FROM bucket", "THEN (SELECT n << 10 FROM bucket"),),
    ),
    Mutant(
        "the first bucket is looked for at the wrong place",
        _ORDER,
        (("(SELECT n << 9 FROM ({_FIRST_BUCKET})", "(SELECT (n << 9) + 256 FROM ({_FIRST_BUCKET})"),),
    ),
    Mutant("a bucket is half as large as its number says", _ORDER, (('"seq >> 9"', '"seq >> 8"'),)),
    Mutant(
        "the walk over the buckets begins at the end",
        _ORDER,
        (("ORDER BY {_BUCKET} LIMIT 1)", "ORDER BY {_BUCKET} DESC LIMIT 1)"),),
    ),
    Mutant(
        "of a file made by someone else the last job is read",
        "a queue file made by someone else works as well",
        (("ELSE (SELECT min(seq) FROM jobs) END", "ELSE (SELECT max(seq) FROM jobs) END"),),
    ),
    Mutant(
        "a queue without our index cannot be read",
        "a queue file made by someone else works as well",
        (
            (
                "SELECT seq, CAST(id AS BLOB), qty, token, attempts, deadline FROM jobs\n",
                "SELECT seq, CAST(id AS BLOB), qty, token, attempts, deadline FROM jobs INDEXED BY jobs_by_due\n",
            ),
        ),
    ),
    Mutant(
        "a job is chosen before the lock",
        _RACE,
        (
            ('        row = _row(con, _FIRST_DUE, {"now_ms": now_ms})\n', "        row = early\n"),
            ('        con.execute(_QUARANTINE, {"now_ms": now_ms})\n', ""),
            (
                "    def lease() -> dict[str, Any] | None:\n",
                (
                    "    if con.in_transaction:\n"
                    "        raise sqlite3.ProgrammingError\n"
                    "\n"
                    "    def sweep() -> bool:\n"
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    "        return False\n"
                    "\n"
                    "    if fault is None:\n"
                    "        _write(con, sweep)\n"
                    '        early = _row(con, _FIRST_DUE, {"now_ms": now_ms})\n'
                    "\n"
                    "    def lease() -> dict[str, Any] | None:\n"
                    "        nonlocal early\n"
                    "        if fault is not None:\n"
                    "            sweep()\n"
                    '            early = _row(con, _FIRST_DUE, {"now_ms": now_ms})\n'
                ),
            ),
            (
                '    lease_ms = _exact_int("lease_ms", lease_ms)\n',
                '    lease_ms = _exact_int("lease_ms", lease_ms)\n    early: tuple[Any, ...] | None = None\n',
            ),
        ),
        seen="dbos-inc/dbos-transact-py#541",
    ),
    Mutant(
        "an empty queue is remembered beside the file",
        "the file alone says what is due",
        (
            (
                "    def lease() -> dict[str, Any] | None:\n",
                (
                    "    empty = globals().setdefault('_EMPTY', set())\n"
                    "    place = (con.execute('PRAGMA database_list').fetchone()[-1], now_ms)\n"
                    "\n"
                    "    def lease() -> dict[str, Any] | None:\n"
                    "        if place in empty:\n"
                    "            return None\n"
                ),
            ),
            (
                "        if row is None:\n            return None\n        seq,",
                "        if row is None:\n            empty.add(place)\n            return None\n        seq,",
            ),
        ),
    ),
)
