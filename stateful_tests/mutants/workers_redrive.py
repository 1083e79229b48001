"""Wrong workers: redrive."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_RACE: Final = "what is written is read inside the same BEGIN IMMEDIATE"
_ONE: Final = "audit and revival are in one transaction"

REDRIVE: Final = (
    # --- redrive
    Mutant(
        "a job that is not dead is redriven",
        "only a dead job is redriven",
        (("WHERE id = :id AND status = 'dead'\", order)", 'WHERE id = :id", order)'),),
    ),
    Mutant(
        "a done job is redriven",
        "only a dead job is redriven",
        (("WHERE id = :id AND status = 'dead'\", order)", "WHERE id = :id AND status IN ('dead', 'done')\", order)"),),
    ),
    Mutant(
        "a redrive of no dead job is False",
        "a redrive of no dead job is a ValueError",
        (('            raise ValueError(f"{job_id} is not a dead job")\n', "            return False\n"),),
    ),
    Mutant(
        "a redrive leaves no audit",
        "a redrive leaves an audit row",
        (('        con.execute(_AUDIT, {**order, "token": dead[0]})\n', ""),),
    ),
    Mutant(
        "the audit comes after the COMMIT",
        _ONE,
        (
            ('        con.execute(_AUDIT, {**order, "token": dead[0]})\n', "        token.append(dead[0])\n"),
            ("    def revive() -> bool:\n", "    token: list[int] = []\n\n    def revive() -> bool:\n"),
            (
                "    return _write(con, revive, fault)\n",
                (
                    "    try:\n"
                    "        return _write(con, revive, fault)\n"
                    "    finally:\n"
                    "        if token and not con.in_transaction and fault is None:\n"
                    '            con.execute(_AUDIT, {**order, "token": token[0]})\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the audit has a transaction of its own",
        _ONE,
        (
            (
                '        con.execute(_AUDIT, {**order, "token": dead[0]})\n',
                (
                    '        con.execute(_AUDIT, {**order, "token": dead[0]})\n'
                    '        con.execute("COMMIT")\n'
                    '        con.execute("BEGIN IMMEDIATE")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the audit is written where the redrive is refused",
        "a refused redrive changes nothing",
        (
            (
                '            raise ValueError(f"{job_id} is not a dead job")\n',
                (
                    '            con.execute(_AUDIT, {**order, "token": 0})\n'
                    '            con.execute("COMMIT")\n'
                    '            raise ValueError(f"{job_id} is not a dead job")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the audit has the next token",
        "the audit has the current token",
        (('{**order, "token": dead[0]}', '{**order, "token": dead[0] + 1}'),),
    ),
    Mutant(
        "the audit has the deadline for its time",
        "the audit's at_ms is now_ms",
        (("VALUES (:id, :token, :now_ms, :note)", "VALUES (:id, :token, :now_ms + :ttl_ms, :note)"),),
    ),
    Mutant(
        "the audit's note is the id",
        "the audit has the note",
        (("VALUES (:id, :token, :now_ms, :note)", "VALUES (:id, :token, :now_ms, :id)"),),
    ),
    Mutant(
        "a second audit replaces the first",
        "every redrive leaves an audit row",
        (
            (
                "        con.execute(_AUDIT, {**order",
                (
                    '        con.execute("DELETE FROM redrives WHERE id = :id", order)\n'
                    "        con.execute(_AUDIT, {**order"
                ),
            ),
        ),
    ),
    Mutant(
        "a redriven job keeps its attempts",
        "a redriven job has attempts 0",
        (("'pending', attempts = 0, available_at = :now_ms, deadline", "'pending', available_at = :now_ms, deadline"),),
    ),
    Mutant(
        "a redriven job keeps available_at",
        "a redriven job is available at now_ms",
        (("'pending', attempts = 0, available_at = :now_ms, deadline", "'pending', attempts = 0, deadline"),),
    ),
    Mutant(
        "a redrive adds to the old deadline",
        "a redriven job's deadline is now_ms + ttl_ms",
        (
            (
                "available_at = :now_ms, deadline = :now_ms + :ttl_ms,\n",
                "available_at = :now_ms, deadline = deadline + :ttl_ms,\n",
            ),
        ),
    ),
    Mutant(
        "a redriven job keeps its reason",
        "a redriven job has no reason",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id",
                "  owner = NULL, lease_until = NULL\nWHERE id",
            ),
        ),
    ),
    Mutant(
        "the token restarts after a redrive",
        "the claim generation is never used again",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id",
                "  owner = NULL, lease_until = NULL, reason = NULL, token = 0\nWHERE id",
            ),
        ),
        seen="wavect/semaprax#192",
    ),
    Mutant(
        "a redrive counts the token on",
        "the token stays",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id",
                "  owner = NULL, lease_until = NULL, reason = NULL, token = token + 1\nWHERE id",
            ),
        ),
    ),
    Mutant(
        "a redrive gives three attempts",
        "max_attempts stays",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id",
                "  owner = NULL, lease_until = NULL, reason = NULL, max_attempts = 3\nWHERE id",
            ),
        ),
    ),
    Mutant(
        "a redrive puts the job at the end",
        "only these columns change",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id",
                "  owner = NULL, lease_until = NULL, reason = NULL, seq = (SELECT max(seq) + 1 FROM jobs)\nWHERE id",
            ),
        ),
    ),
    Mutant(
        "a redrive revives every dead job",
        "a redrive revives one job",
        (
            (
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE id = :id",
                "  owner = NULL, lease_until = NULL, reason = NULL\nWHERE status = 'dead'",
            ),
        ),
    ),
    Mutant(
        "a redrive is None",
        "a redrive returns True",
        (
            (
                '        _reach(fault, "after-redrive")\n        return True\n',
                '        _reach(fault, "after-redrive")\n        return None  # type: ignore[return-value]\n',
            ),
        ),
    ),
    Mutant(
        "after-audit is reached before the audit",
        "after-audit comes after the INSERT",
        (
            (
                '        con.execute(_AUDIT, {**order, "token": dead[0]})\n        _reach(fault, "after-audit")\n',
                '        _reach(fault, "after-audit")\n        con.execute(_AUDIT, {**order, "token": dead[0]})\n',
            ),
        ),
    ),
    Mutant(
        "after-audit is never reached",
        "after-audit comes after the INSERT",
        (('        _reach(fault, "after-audit")\n', ""),),
    ),
    Mutant(
        "after-redrive is reached before the change",
        "after-redrive comes after the UPDATE",
        (
            (
                '        con.execute(_REVIVE, order)\n        _reach(fault, "after-redrive")\n',
                '        _reach(fault, "after-redrive")\n        con.execute(_REVIVE, order)\n',
            ),
        ),
    ),
    Mutant(
        "after-redrive is never reached",
        "after-redrive comes before the COMMIT",
        (('        _reach(fault, "after-redrive")\n', ""),),
    ),
    Mutant(
        "the revival comes before the audit",
        "the audit comes first, and after-audit before the revival",
        (
            (
                (
                    '        con.execute(_AUDIT, {**order, "token": dead[0]})\n'
                    '        _reach(fault, "after-audit")\n'
                    "        con.execute(_REVIVE, order)\n"
                ),
                (
                    "        con.execute(_REVIVE, order)\n"
                    '        con.execute(_AUDIT, {**order, "token": dead[0]})\n'
                    '        _reach(fault, "after-audit")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a redrive's hooks are not called after its commit",
        "after-commit comes after the COMMIT",
        (("return _write(con, revive, fault)", "return _write(con, revive)"),),
    ),
    Mutant(
        "the id of a redrive is not judged",
        "job_id is an identifier",
        (('"id": _identifier("job_id", job_id),', '"id": job_id,'),),
    ),
    Mutant("the note of a redrive is not judged", "note is an identifier", (('_identifier("note", note)', "note"),)),
    Mutant(
        "the time to live of a redrive is not judged",
        "ttl_ms is an exact int in its range",
        (
            (
                '        "ttl_ms": _exact_int("ttl_ms", ttl_ms),\n        "note"',
                '        "ttl_ms": ttl_ms,\n        "note"',
            ),
        ),
    ),
    Mutant(
        "the note is judged where the job is dead",
        "values are judged before any transaction",
        (
            ('_identifier("note", note)', "note"),
            (
                '        con.execute(_AUDIT, {**order, "token"',
                '        _identifier("note", note)\n        con.execute(_AUDIT, {**order, "token"',
            ),
        ),
    ),
    Mutant(
        "a dead job is looked up before the lock",
        _RACE,
        (
            ("        dead = _row(con, \"SELECT token FROM jobs WHERE id = :id AND status = 'dead'\", order)\n", ""),
            (
                "    def revive() -> bool:\n",
                (
                    "    dead = _row(con, \"SELECT token FROM jobs WHERE id = :id AND status = 'dead'\", order)\n"
                    "\n"
                    "    def revive() -> bool:\n"
                ),
            ),
        ),
    ),
    Mutant(
        "redrive looks first whether the job is dead",
        _RACE,
        (
            (
                "    return _write(con, revive, fault)",
                (
                    "    if _row(con, \"SELECT 1 FROM jobs WHERE id = :id AND status = 'dead'\", order) is None:\n"
                    '        raise ValueError(f"{job_id} is not a dead job")\n'
                    "    return _write(con, revive, fault)"
                ),
            ),
        ),
        equivalent="what is not dead changes nothing, and what is dead is looked at again under the lock",
    ),
)
