"""Wrong workers: the lease that a claim writes, its ticket, hooks and values."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_COUNT: Final = "a claim adds one to attempts and one to token"

LEASE: Final = (
    # --- the lease
    Mutant(
        "a claim does not count as an attempt",
        _COUNT,
        (("token = :token, attempts = :attempt,\n", "token = :token,\n"),),
    ),
    Mutant(
        "a claim after an expired lease uses no attempt",
        _COUNT,
        (('"attempt": attempts + 1,', '"attempt": max(attempts, 1),'),),
        seen="jamjet-labs/jamjet#119",
    ),
    Mutant(
        "the attempt is counted twice",
        _COUNT,
        (("token = :token, attempts = :attempt,\n", "token = :token, attempts = :attempt + 1,\n"),),
    ),
    Mutant(
        "the ticket has the attempt before",
        "the ticket's attempt is the new attempts",
        (
            ('"attempt": attempts + 1,', '"attempt": attempts,'),
            ("token = :token, attempts = :attempt,\n", "token = :token, attempts = attempts + 1,\n"),
        ),
    ),
    Mutant(
        "the token restarts at every reclaim",
        _COUNT,
        (('"token": token + 1,', '"token": 1,'),),
        seen="wavect/semaprax#192",
    ),
    Mutant(
        "the token is the attempt",
        _COUNT,
        (('"token": token + 1,', '"token": attempts + 1,'),),
        seen="wavect/semaprax#192",
    ),
    Mutant(
        "a reclaim keeps the token",
        _COUNT,
        (('"token": token + 1,', '"token": max(token, 1),'),),
        seen="jamjet-labs/jamjet#122",
    ),
    Mutant(
        "the token is not written down",
        _COUNT,
        (("owner = :owner, token = :token, attempts = :attempt,\n", "owner = :owner, attempts = :attempt,\n"),),
    ),
    Mutant("the token is the time", _COUNT, (('"token": token + 1,', '"token": max(token + 1, now_ms),'),)),
    Mutant(
        "a reclaimed job keeps its first owner",
        "the claim's owner owns the job",
        (("'leased', owner = :owner,", "'leased', owner = coalesce(owner, :owner),"),),
        seen="aegra/aegra#547",
    ),
    Mutant(
        "a lease outlives the deadline",
        "lease_until is the earlier of now_ms + lease_ms and the deadline",
        (("min(now_ms + lease_ms, deadline)", "now_ms + lease_ms"),),
    ),
    Mutant(
        "a lease ends one ms early",
        "lease_until is the earlier of now_ms + lease_ms and the deadline",
        (("min(now_ms + lease_ms, deadline)", "min(now_ms + lease_ms - 1, deadline)"),),
    ),
    Mutant(
        "the file knows a longer lease than the ticket",
        "the ticket's lease_until is the row's",
        (("  lease_until = :lease_until, reason = NULL\n", "  lease_until = :lease_until + 1, reason = NULL\n"),),
    ),
    Mutant(
        "a claimed job keeps the reason of its retry",
        "a leased job has no reason",
        (("  lease_until = :lease_until, reason = NULL\n", "  lease_until = :lease_until\n"),),
    ),
    Mutant(
        "a claim moves available_at",
        "a claim changes nothing else of the row",
        (
            (
                "  lease_until = :lease_until, reason = NULL\n",
                "  lease_until = :lease_until, reason = NULL, available_at = :lease_until\n",
            ),
        ),
    ),
    Mutant(
        "a claim leases every job of that quantity",
        "a claim leases one job",
        (('WHERE seq = :seq"""', 'WHERE seq = :seq OR (status = \'pending\' AND qty = :qty)"""'),),
    ),
    Mutant(
        "a lease lasts two seconds by default",
        "lease_ms is 1000 by default",
        (("now_ms: int, lease_ms: int = 1000, fault", "now_ms: int, lease_ms: int = 2000, fault"),),
    ),
    # --- the ticket
    Mutant(
        "a ticket has a further key",
        "the ticket has exactly six keys",
        (('            "qty": qty,\n', '            "qty": qty,\n            "seq": seq,\n'),),
    ),
    Mutant(
        "a ticket has no quantity",
        "the ticket has exactly six keys",
        (
            (
                "        return ticket\n\n    return _write(con, lease",
                '        return {key: ticket[key] for key in ticket if key != "qty"}\n\n    return _write(con, lease',
            ),
        ),
    ),
    Mutant(
        "a claim of nothing is an empty dict",
        "a claim of nothing is None",
        (
            (
                "        if row is None:\n            return None\n        seq,",
                "        if row is None:\n            return {}\n        seq,",
            ),
        ),
    ),
    Mutant(
        "the caller's text_factory is taken away",
        "a lent connection comes back with its settings",
        (
            ("SELECT seq, CAST(id AS BLOB), qty", "SELECT seq, id, qty"),
            ('job_id.replace(b"\\0", b"").decode()', "job_id"),
            (
                "        row = _row(con, _FIRST_DUE",
                "        con.text_factory = str\n        row = _row(con, _FIRST_DUE",
            ),
        ),
    ),
    # --- its hooks and values
    Mutant(
        "after-claim is reached before the change",
        "after-claim comes after the UPDATE",
        (
            (
                '        con.execute(_LEASE, {**ticket, "seq": seq})\n        _reach(fault, "after-claim")\n',
                '        _reach(fault, "after-claim")\n        con.execute(_LEASE, {**ticket, "seq": seq})\n',
            ),
        ),
    ),
    Mutant(
        "after-claim is never reached",
        "after-claim comes before the COMMIT",
        (('        _reach(fault, "after-claim")\n', ""),),
    ),
    Mutant(
        "after-claim is reached where there is no job",
        "no hook is called where the result is None",
        (
            (
                "        if row is None:\n            return None\n        seq,",
                (
                    "        if row is None:\n"
                    '            _reach(fault, "after-claim")\n'
                    "            return None\n"
                    "        seq,"
                ),
            ),
        ),
    ),
    Mutant(
        "a claim's hooks are not called after its commit",
        "after-commit comes after the COMMIT",
        (("return _write(con, lease, fault)", "return _write(con, lease)"),),
    ),
    Mutant(
        "the owner of a claim is not judged",
        "owner is an identifier",
        (('    owner = _identifier("owner", owner)\n', ""),),
    ),
    Mutant(
        "the time of a claim is not judged",
        "now_ms is an exact int in its range",
        (('    now_ms = _exact_int("now_ms", now_ms)\n    lease_ms', "    lease_ms"),),
    ),
    Mutant(
        "the lease of a claim is not judged",
        "lease_ms is an exact int in its range",
        (('    lease_ms = _exact_int("lease_ms", lease_ms)\n', ""),),
    ),
    Mutant(
        "the lease is judged after BEGIN",
        "values are judged before any transaction",
        (
            ('    lease_ms = _exact_int("lease_ms", lease_ms)\n', ""),
            (
                "    def lease() -> dict[str, Any] | None:\n",
                '    def lease() -> dict[str, Any] | None:\n        _exact_int("lease_ms", lease_ms)\n',
            ),
        ),
    ),
    Mutant(
        "the lease is judged only where a job is due",
        "values are judged before any transaction",
        (
            ('    lease_ms = _exact_int("lease_ms", lease_ms)\n', ""),
            (
                "        seq, job_id, qty, token, attempts, deadline = row\n",
                (
                    "        seq, job_id, qty, token, attempts, deadline = row\n"
                    '        _exact_int("lease_ms", lease_ms)\n'
                ),
            ),
        ),
    ),
)
