"""Wrong workers: which jobs are open, due or doomed, and the sweep of a claim."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_DUE: Final = "a job is due from available_at on, a leased one from lease_until on"
_SWEEP: Final = "of the jobs that are pending or over their lease, the late and the exhausted die"
_LIVE: Final = "a running lease is never cut short"
_REASON: Final = "the reason is deadline where it has passed, otherwise exhausted"

SWEEP: Final = (
    # --- which jobs are open, due, doomed
    Mutant(
        "an expired lease stays for ever",
        "a job is due again when its lease is over",
        (("status IN ('pending', 'leased')\"", "status IN ('pending')\""),),
        seen="graphile/worker#254",
    ),
    Mutant(
        "an expired last attempt stays leased for ever",
        _SWEEP,
        (("WHEN attempts >= max_attempts THEN lease_until ELSE", "WHEN attempts >= max_attempts THEN NULL ELSE"),),
        seen="graphile/worker#254",
    ),
    Mutant(
        "a retried job does not wait", _DUE, (("WHEN 'pending' THEN available_at ELSE", "WHEN 'pending' THEN 0 ELSE"),)
    ),
    Mutant(
        "a live lease is claimed again",
        _LIVE,
        (("THEN available_at ELSE lease_until END", "THEN available_at ELSE available_at END"),),
    ),
    Mutant("a live lease past its attempts is swept", _LIVE, (("THEN lease_until ELSE max(", "THEN 0 ELSE max("),)),
    Mutant(
        "a live lease past the deadline is swept",
        _LIVE,
        (("ELSE max(deadline, lease_until) END", "ELSE deadline END"),),
    ),
    Mutant(
        "a job dies with its first lease", _SWEEP, (("ELSE max(deadline, lease_until) END", "ELSE lease_until END"),)
    ),
    Mutant(
        "an expired lease gets an attempt too many",
        _SWEEP,
        (("WHEN attempts >= max_attempts THEN lease_until", "WHEN attempts > max_attempts THEN lease_until"),),
    ),
    Mutant(
        "an expired lease gets an attempt too few",
        _SWEEP,
        (("WHEN attempts >= max_attempts THEN lease_until", "WHEN attempts + 1 >= max_attempts THEN lease_until"),),
    ),
    Mutant(
        "a pending job gets an attempt too many",
        _SWEEP,
        (("CASE WHEN attempts >= max_attempts THEN 0", "CASE WHEN attempts > max_attempts THEN 0"),),
    ),
    Mutant(
        "an exhausted job dies when it is due",
        _SWEEP,
        (("max_attempts THEN 0 ELSE deadline END", "max_attempts THEN available_at ELSE deadline END"),),
    ),
    Mutant(
        "a job that is not yet due is never swept",
        _SWEEP,
        (('WHERE {_OPEN} AND {_DIES} <= :now_ms"""', 'WHERE {_OPEN} AND {_DIES} <= :now_ms AND {_DUE} <= :now_ms"""'),),
    ),
    Mutant(
        "settled jobs are looked at too",
        "done and dead jobs stay as they are",
        (
            ("status IN ('pending', 'leased')\"", "status <> 'lost'\""),
            ("ELSE max(deadline, lease_until) END", "WHEN status = 'leased' THEN max(deadline, lease_until) END"),
            (
                "  WHEN attempts >= max_attempts THEN lease_until",
                "  WHEN status = 'leased' AND attempts >= max_attempts THEN lease_until",
            ),
            ("THEN available_at ELSE lease_until END", "THEN available_at WHEN 'leased' THEN lease_until END"),
        ),
        equivalent="a settled job has neither a time of death nor one at which it is due: both are NULL",
    ),
    Mutant(
        "dead jobs are swept again",
        "done and dead jobs stay as they are",
        (
            ("status IN ('pending', 'leased')\"", "status <> 'done'\""),
            ("  WHEN status = 'pending' THEN CASE", "  WHEN status <> 'leased' THEN CASE"),
        ),
    ),
    Mutant(
        "dead jobs are claimed",
        "done and dead jobs stay as they are",
        (
            ("status IN ('pending', 'leased')\"", "status <> 'done'\""),
            (
                "CASE status WHEN 'pending' THEN available_at ELSE lease_until END",
                "CASE status WHEN 'leased' THEN lease_until ELSE available_at END",
            ),
        ),
    ),
    # --- the sweep
    Mutant(
        "nothing is ever swept",
        _SWEEP,
        (('        con.execute(_QUARANTINE, {"now_ms": now_ms})\n', ""),),
        seen="graphile/worker#254",
    ),
    Mutant("the sweep is one ms late", _SWEEP, (('AND {_DIES} <= :now_ms"""', 'AND {_DIES} < :now_ms"""'),)),
    Mutant("the sweep is one ms early", _SWEEP, (('AND {_DIES} <= :now_ms"""', 'AND {_DIES} <= :now_ms + 1"""'),)),
    Mutant(
        "the sweep comes after the choice",
        "the sweep comes before the choice",
        (
            (
                (
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    '        row = _row(con, _FIRST_DUE, {"now_ms": now_ms})\n'
                ),
                (
                    '        row = _row(con, _FIRST_DUE, {"now_ms": now_ms})\n'
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the sweep is done only where no job is due",
        _SWEEP,
        (
            ('        con.execute(_QUARANTINE, {"now_ms": now_ms})\n', ""),
            (
                "        if row is None:\n            return None\n        seq,",
                (
                    "        if row is None:\n"
                    '            con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    "            return None\n"
                    "        seq,"
                ),
            ),
            (
                "WHERE {_OPEN} AND {_DUE} <= :now_ms AND seq >=",
                "WHERE {_OPEN} AND {_DUE} <= :now_ms AND {_DIES} > :now_ms AND seq >=",
            ),
            ("n AND {_DUE} <= :now_ms LIMIT 1", "n AND {_DUE} <= :now_ms AND {_DIES} > :now_ms LIMIT 1"),
        ),
    ),
    Mutant(
        "the sweep has a transaction of its own",
        "an error before COMMIT rolls the quarantine back too",
        (
            ('        con.execute(_QUARANTINE, {"now_ms": now_ms})\n', ""),
            (
                "    def lease() -> dict[str, Any] | None:\n",
                (
                    "    def sweep() -> bool:\n"
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    "        return False\n"
                    "\n"
                    "    _write(con, sweep)\n"
                    "\n"
                    "    def lease() -> dict[str, Any] | None:\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the sweep commits before the choice",
        "an error before COMMIT rolls the quarantine back too",
        (
            (
                '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n',
                (
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    '        con.execute("COMMIT")\n'
                    '        con.execute("BEGIN IMMEDIATE")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a sweep buries one job at a time",
        _SWEEP,
        (
            (
                'AND {_DIES} <= :now_ms"""',
                (
                    "AND {_DIES} <= :now_ms\n"
                    '  AND seq = (SELECT min(seq) FROM jobs WHERE {_OPEN} AND {_DIES} <= :now_ms)"""'
                ),
            ),
        ),
    ),
    Mutant(
        "the deadline one ms before is exhaustion",
        _REASON,
        (("CASE WHEN deadline <= :now_ms THEN 'deadline'", "CASE WHEN deadline < :now_ms THEN 'deadline'"),),
    ),
    Mutant(
        "exhaustion comes before the deadline",
        _REASON,
        (
            (
                "CASE WHEN deadline <= :now_ms THEN 'deadline' ELSE 'exhausted' END",
                "CASE WHEN attempts >= max_attempts THEN 'exhausted' ELSE 'deadline' END",
            ),
        ),
    ),
    Mutant(
        "every swept job has met its deadline",
        _REASON,
        (("CASE WHEN deadline <= :now_ms THEN 'deadline' ELSE 'exhausted' END", "'deadline'"),),
    ),
    Mutant(
        "a swept job keeps its owner",
        "a swept job has no owner",
        (("status = 'dead', owner = NULL, lease_until = NULL,\n", "status = 'dead', lease_until = NULL,\n"),),
    ),
    Mutant(
        "a swept job keeps its lease",
        "a swept job has no lease_until",
        (("status = 'dead', owner = NULL, lease_until = NULL,\n", "status = 'dead', owner = NULL,\n"),),
    ),
    Mutant(
        "a swept job is available again",
        "the sweep changes nothing else of the row",
        (
            (
                "status = 'dead', owner = NULL, lease_until = NULL,\n",
                "status = 'dead', owner = NULL, lease_until = NULL, available_at = :now_ms,\n",
            ),
        ),
    ),
    Mutant(
        "a swept job gets a new token",
        "the sweep changes nothing else of the row",
        (
            (
                "status = 'dead', owner = NULL, lease_until = NULL,\n",
                "status = 'dead', owner = NULL, lease_until = NULL, token = token + 1,\n",
            ),
        ),
    ),
    Mutant(
        "a pending job without an attempt left lives at time 0",
        "the sweep takes every pending job that has no attempt left",
        (("THEN 0 ELSE deadline END", "THEN 1 ELSE deadline END"),),
    ),
)
