"""Wrong workers: run_once, but for its send."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_CLOCK: Final = "the clock is read once before the claim and once before the finish"
_SECOND: Final = "a second reading that is no time, or before the first, is a ValueError"
_RETRY: Final = "a retry waits retry_delay(attempt, 100, 1000, jitter)"

RUN: Final = (
    # --- the claim
    Mutant(
        "jitter is not judged",
        "jitter is judged before the clock is read",
        (("    _ratio(jitter)\n    first_ms", "    first_ms"),),
    ),
    Mutant(
        "jitter is judged after the clock is read",
        "jitter is judged before the clock is read",
        (("    _ratio(jitter)\n    first_ms = clock()\n", "    first_ms = clock()\n    _ratio(jitter)\n"),),
    ),
    Mutant(
        "the clock is read twice before the claim",
        _CLOCK,
        (("    first_ms = clock()\n", "    first_ms = min(clock(), clock())\n"),),
    ),
    Mutant(
        "a run forgets its lease",
        "run_once claims for lease_ms",
        (("claim(con, owner, first_ms, lease_ms)", "claim(con, owner, first_ms)"),),
    ),
    Mutant(
        "a run of nothing reads the clock again",
        _CLOCK,
        (
            (
                "    if ticket is None:\n        return None\n",
                "    if ticket is None:\n        clock()\n        return None\n",
            ),
        ),
    ),
    Mutant(
        "a run of nothing sends",
        "send is not called where there is no job",
        (
            (
                "    if ticket is None:\n        return None\n",
                "    if ticket is None:\n        send({})\n        return None\n",
            ),
        ),
    ),
    Mutant(
        "a job is sent inside the claim's transaction",
        "send is called outside any transaction",
        (
            (
                "    ticket = claim(con, owner, first_ms, lease_ms)\n",
                (
                    '    outcome = ""\n'
                    "\n"
                    "    def within(hook: str) -> None:\n"
                    "        nonlocal outcome\n"
                    '        if hook == "after-claim":\n'
                    '            job = con.execute("SELECT CAST(id AS BLOB), qty FROM jobs WHERE owner ='
                    ' ? ORDER BY token DESC, lease_until DESC LIMIT 1", (owner,)).fetchone()\n'
                    '            outcome = _deliver(send, {"id": job[0].decode(), "qty": job[1]})\n'
                    "\n"
                    "    ticket = claim(con, owner, first_ms, lease_ms, within)\n"
                ),
            ),
            ("    outcome = _deliver(send, ticket)\n", ""),
        ),
    ),
    Mutant(
        "a job is sent inside a transaction of its own",
        "send is called outside any transaction",
        (
            (
                "    outcome = _deliver(send, ticket)\n",
                (
                    '    con.execute("BEGIN")\n'
                    "    try:\n"
                    "        outcome = _deliver(send, ticket)\n"
                    "    finally:\n"
                    '        con.execute("ROLLBACK")\n'
                ),
            ),
        ),
    ),
    # --- the second reading
    Mutant(
        "the job is finished at the time of the claim",
        _CLOCK,
        (
            (
                "status = finish(con, ticket, outcome, second_ms, delay_ms)",
                "status = finish(con, ticket, outcome, first_ms, delay_ms)",
            ),
        ),
    ),
    Mutant(
        "the clock is read once",
        _CLOCK,
        (('second_ms = _exact_int("now_ms", clock())', "second_ms = first_ms"),),
        seen="imtms/tagent-core#56",
    ),
    Mutant(
        "the clock is read before the send",
        _CLOCK,
        (
            (
                '    outcome = _deliver(send, ticket)\n    second_ms = _exact_int("now_ms", clock())\n',
                '    second_ms = _exact_int("now_ms", clock())\n    outcome = _deliver(send, ticket)\n',
            ),
        ),
    ),
    Mutant(
        "the clock is read a third time",
        _CLOCK,
        (
            (
                "status = finish(con, ticket, outcome, second_ms, delay_ms)",
                "status = finish(con, ticket, outcome, max(second_ms, clock()), delay_ms)",
            ),
        ),
    ),
    Mutant(
        "the second reading is compared before it is judged",
        _SECOND,
        (('second_ms = _exact_int("now_ms", clock())', "second_ms = clock()"),),
    ),
    Mutant("the second reading is not compared", _SECOND, (("    if second_ms < first_ms:\n", "    if False:\n"),)),
    Mutant(
        "a clock that stood still is refused",
        _SECOND,
        (("    if second_ms < first_ms:\n", "    if second_ms <= first_ms:\n"),),
    ),
    Mutant(
        "a clock that went back is taken for the first reading",
        _SECOND,
        (
            (
                '        raise ValueError(f"the clock went back from {first_ms} to {second_ms}")\n',
                "        second_ms = first_ms\n",
            ),
        ),
        seen="dbader/schedule#323",
    ),
    Mutant(
        "a clock that went back is waited for",
        _SECOND,
        (
            (
                (
                    "    if second_ms < first_ms:\n"
                    '        raise ValueError(f"the clock went back from {first_ms} to {second_ms}")\n'
                ),
                '    while second_ms < first_ms:\n        second_ms = _exact_int("now_ms", clock())\n',
            ),
        ),
        seen="dbader/schedule#323",
    ),
    Mutant(
        "a clock that went back frees the job",
        "the committed claim stays",
        (
            (
                "    if second_ms < first_ms:\n",
                '    if second_ms < first_ms:\n        finish(con, ticket, "retry", first_ms)\n',
            ),
        ),
    ),
    # --- the finish
    Mutant(
        "a retry waits twice as long",
        _RETRY,
        (('retry_delay(ticket["attempt"], 100, 1000, jitter)', 'retry_delay(ticket["attempt"], 200, 1000, jitter)'),),
    ),
    Mutant(
        "a retry waits up to ten seconds",
        _RETRY,
        (('retry_delay(ticket["attempt"], 100, 1000, jitter)', 'retry_delay(ticket["attempt"], 100, 10_000, jitter)'),),
    ),
    Mutant(
        "a retry waits without jitter",
        _RETRY,
        (('retry_delay(ticket["attempt"], 100, 1000, jitter)', 'retry_delay(ticket["attempt"], 100, 1000, 1)'),),
    ),
    Mutant(
        "a retry waits as after the first attempt",
        _RETRY,
        (('retry_delay(ticket["attempt"], 100, 1000, jitter)', "retry_delay(1, 100, 1000, jitter)"),),
    ),
    Mutant(
        "a retry waits by its token",
        _RETRY,
        (
            (
                'retry_delay(ticket["attempt"], 100, 1000, jitter)',
                'retry_delay(min(ticket["token"], 16), 100, 1000, jitter)',
            ),
        ),
    ),
    Mutant(
        "a retry does not wait",
        _RETRY,
        (
            (
                "status = finish(con, ticket, outcome, second_ms, delay_ms)",
                "status = finish(con, ticket, outcome, second_ms)",
            ),
        ),
    ),
    Mutant(
        "a finish is told the delay of a retry",
        "a settled job's available_at is the second reading",
        ((' if outcome == "retry" else 0\n', "\n"),),
        equivalent="finish heeds the delay of a retry alone",
    ),
    Mutant(
        "a run finishes whichever lease it finds",
        "the ticket of the claim is what finishes the job",
        (
            (
                "    status = finish(",
                (
                    '    token, attempt, owner, until = con.execute("SELECT token, attempts, owner,'
                    ' lease_until FROM jobs WHERE id = ?", (ticket["id"],)).fetchone()\n'
                    "    if owner is not None:\n"
                    "        ticket.update(token=token, attempt=attempt, owner=owner if"
                    " isinstance(owner, str) else owner.decode(), lease_until=until)\n"
                    "    status = finish("
                ),
            ),
        ),
        seen="aegra/aegra#547",
    ),
    Mutant(
        "a stale ticket is an error",
        "the status is stale where finish said False",
        (
            (
                '    return {"id": ticket["id"], "token"',
                '    if not status:\n        raise Conflict("stale")\n    return {"id": ticket["id"], "token"',
            ),
        ),
    ),
    Mutant(
        "a stale ticket has the status False",
        "the status is stale where finish said False",
        (('status or "stale"', "status"),),
    ),
    Mutant(
        "a run tells the outcome",
        "run_once returns exactly id, token and status",
        (('status or "stale"}', 'status or "stale", "outcome": outcome}'),),
    ),
    Mutant(
        "a run lasts two seconds by default",
        "lease_ms is 1000 by default",
        (
            (
                '    jitter: float,\n    lease_ms: int = 1000,\n) -> dict[str, Any] | None:\n    """Claim one',
                '    jitter: float,\n    lease_ms: int = 2000,\n) -> dict[str, Any] | None:\n    """Claim one',
            ),
        ),
    ),
    Mutant(
        "a run of a file lasts two seconds by default",
        "lease_ms is 1000 by default",
        (
            (
                '    jitter: float,\n    lease_ms: int = 1000,\n) -> dict[str, Any] | None:\n    """``run_once`` on',
                '    jitter: float,\n    lease_ms: int = 2000,\n) -> dict[str, Any] | None:\n    """``run_once`` on',
            ),
        ),
    ),
    Mutant(
        "retry_delay sleeps for a moment",
        "retry_delay only calculates",
        (
            (
                "    return math.floor(min(cap_ms",
                "    __import__('time').sleep(0.0001)\n    return math.floor(min(cap_ms",
            ),
        ),
    ),
    Mutant(
        "the form of the second reading is judged after True only",
        "a second reading that is no time is a ValueError after a classified error, too",
        (
            (
                '    second_ms = _exact_int("now_ms", clock())\n',
                '    second_ms = _exact_int("now_ms", clock()) if outcome == "ok" else int(clock())\n',
            ),
        ),
    ),
)
