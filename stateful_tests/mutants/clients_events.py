"""Wrong receivers that keep their store wrongly: events, transactions, hooks, and the opening of the file."""

# ruff: noqa: S608 - the SQL here is text to be put into a file, not executed

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

TOTAL: Final = 'con.execute("UPDATE checkpoint SET total = total + ? WHERE id = 1", (delta,))'
HOOK: Final = '_reach(fault, "after-total")'
LAST: Final = 'con.execute("UPDATE checkpoint SET last = ? WHERE id = 1", (seq,))'
INSERT: Final = 'con.execute("INSERT INTO ledger'
READ: Final = "last, _ = _checkpoint(con)"
WRITE: Final = "_write(con, lambda: _apply(con, seq, delta, fault))"
RUN: Final = f"if fresh := {WRITE}:"
COMMIT: Final = 'con.execute("ROLLBACK" if result is False else "COMMIT")'
GUARD: Final = 'with contextlib.suppress(Exception):\n            con.execute("ROLLBACK")'
CALLED: Final = "    apply_event(con, seq, delta, fault)\n"

TOGETHER: Final = "ledger, total and cursor change together or not at all"
ONCE: Final = "an event that comes again is counted once"
CHANGED: Final = "with another delta it is a Conflict, however long ago it was"
MISSING: Final = "an event whose predecessor is missing is a Gap"
ACK: Final = "each event is acknowledged after its commit, and again when it comes again"
ITSELF: Final = "an error is raised as it is"
NOTHING_OPEN: Final = "no transaction stays open, and the caller's is not touched"
HOOKS: Final = "after-total stands before last is moved, after-commit after the COMMIT, for a new event only"
KEPT: Final = "open_store makes what is missing and keeps what is there"

STORE: Final = (
    # events: known, changed, too early
    Mutant("canary", ONCE, (("        return False", f"        {TOTAL}\n        return True"),)),
    Mutant("a known event is said to be new", "a known event is False", (("return fresh", "return True"),)),
    Mutant("another delta is ignored", CHANGED, (("if known != (delta,):", "if False:"),)),
    Mutant(
        "only the last event can conflict",
        CHANGED,
        (("if seq <= last:", "if seq < last:\n        return False\n    if seq == last:"),),
    ),
    Mutant(
        "an old event is in conflict, whatever it says",
        ONCE,
        (("if seq <= last:", 'if seq < last:\n        raise Conflict("too old")\n    if seq == last:'),),
    ),
    Mutant("a sign is no difference", CHANGED, (("if known != (delta,):", "if abs(known[0]) != abs(delta):"),)),
    Mutant(
        "a lost row makes its event known",
        "an event without its row is damage",
        (("if known is None:", "if False:"), ("known != (delta,)", "known not in (None, (delta,))")),
    ),
    Mutant("one missing event is let pass", MISSING, (("if seq > last + 1:", "if seq > last + 2:"),)),
    Mutant("a gap is let pass", MISSING, (("if seq > last + 1:", "if seq > last + 2**62:"),)),
    Mutant(
        "an event too early is acknowledged",
        MISSING,
        (("        raise Gap(", "        return False\n        raise Gap("),),
    ),
    Mutant(
        "a seq goes to SQLite before the gap is seen",
        "a far event is a Gap, not an OverflowError",
        ((READ, f'{READ}\n    _row(con, "SELECT 1 FROM ledger WHERE seq = ?", seq)'),),
    ),
    Mutant("an event of 0 is not written down", TOGETHER, ((INSERT, f"if delta:\n        {INSERT}"),)),
    Mutant("a total forgets what it was", "total is the sum of all", (("total = total + ?", "total = ?"),)),
    Mutant(
        "the ledger forgets what is old",
        "nothing of the ledger is deleted",
        ((LAST, f'{LAST}\n    con.execute("DELETE FROM ledger WHERE seq <= ?", (seq - 16,))'),),
    ),
    Mutant(
        "the cursor is kept in memory beside the file",
        "the file says what was processed",
        (
            ("\n\nclass Conflict", "\n_LAST: dict[object, int] = {}\n\n\nclass Conflict"),
            (READ, "last = _LAST[con] if con in _LAST else _checkpoint(con)[0]"),
            ("    return True", "    _LAST[con] = seq\n    return True"),
        ),
    ),
    # one transaction
    Mutant(
        "the cursor follows in a second transaction",
        TOGETHER,
        ((f"    {LAST}\n", ""), ('_reach(fault, "after-commit")', f'{LAST}\n        _reach(fault, "after-commit")')),
        seen="PacktPublishing/Hands-On-Domain-Driven-Design-with-.NET-Core#17",
    ),
    Mutant(
        "the cursor is committed before the event",
        TOGETHER,
        (
            (f"    {LAST}\n", ""),
            (
                f"    {INSERT}",
                f'    {LAST}\n    con.execute("COMMIT")\n    con.execute("BEGIN IMMEDIATE")\n    {INSERT}',
            ),
        ),
        seen="smithersai/smithers#667",
    ),
    Mutant(
        "the ledger is committed before the cursor",
        TOGETHER,
        ((f"    {TOTAL}\n", f'    con.execute("COMMIT")\n    con.execute("BEGIN IMMEDIATE")\n    {TOTAL}\n'),),
    ),
    Mutant(
        "the cursor is committed before the hook", HOOKS, ((f"    {HOOK}\n    {LAST}\n", f"    {LAST}\n    {HOOK}\n"),)
    ),
    Mutant("BEGIN takes no lock", "BEGIN IMMEDIATE, then last is read", (('"BEGIN IMMEDIATE"', '"BEGIN"'),)),
    Mutant(
        "last is read before BEGIN",
        "BEGIN IMMEDIATE, then last is read",
        (
            (f"    {RUN}", f"    seen = _checkpoint(con)[0]\n    {RUN}"),
            ("_apply(con, seq, delta, fault)):", "_apply(con, seq, delta, fault, seen)):"),
            ("delta: int, fault: _Fault | None) -> bool", "delta: int, fault: _Fault | None, last: int) -> bool"),
            (f"    {READ}\n", ""),
        ),
        seen="seatgeek/djjob#2",
    ),
    Mutant("there is no transaction", TOGETHER, (('con.execute("BEGIN IMMEDIATE")', "pass"), (COMMIT, "pass"))),
    Mutant(
        "a COMMIT that is busy is forgotten",
        NOTHING_OPEN,
        ((COMMIT, f"with contextlib.suppress(sqlite3.OperationalError):\n            {COMMIT}"),),
        seen="oven-sh/bun#33748",
    ),
    Mutant(
        "a COMMIT that is busy leaves its transaction open",
        NOTHING_OPEN,
        (
            (f"        {COMMIT}\n", ""),
            ("    return result\n\n\ndef _row", f"    {COMMIT}\n    return result\n\n\ndef _row"),
        ),
        seen="oven-sh/bun#33748",
    ),
    Mutant("an error commits what came before it", TOGETHER, ((GUARD, GUARD.replace("ROLLBACK", "COMMIT")),)),
    Mutant("an error leaves the transaction open", NOTHING_OPEN, ((GUARD, "pass"),)),
    Mutant(
        "an interrupt leaves the transaction open",
        NOTHING_OPEN,
        (("except BaseException:\n        # A full", "except Exception:\n        # A full"),),
        seen="raiden-network/raiden#3842",
    ),
    Mutant(
        "a failing ROLLBACK replaces the error", ITSELF, ((GUARD, 'con.execute("ROLLBACK")'),), seen="jdbi/jdbi#471"
    ),
    Mutant(
        "a failing BEGIN rolls back the caller's transaction",
        NOTHING_OPEN,
        (("if con.in_transaction:", "if False:"),),
        seen="expo/expo#49727",
    ),
    Mutant(
        "the caller's transaction is joined",
        NOTHING_OPEN,
        (('raise sqlite3.ProgrammingError("the connection has an open transaction")', "return body()"),),
    ),
    Mutant(
        "the caller's transaction is committed first",
        NOTHING_OPEN,
        (('raise sqlite3.ProgrammingError("the connection has an open transaction")', "con.commit()"),),
    ),
    Mutant(
        "the rows are of the caller's class",
        "whatever the connection's row_factory",
        (("cursor.row_factory = None", "pass"),),
    ),
    Mutant(
        "the connection that is lent is closed after an error",
        "who borrows a connection never closes it",
        ((GUARD, f"{GUARD}\n        con.close()"),),
    ),
    Mutant(
        "values are looked at after the first row is written",
        "a wrong value is a ValueError before anything is changed",
        (("    _event(seq, delta)\n    if", "    if"), (f"    {TOTAL}\n", f"    _event(seq, delta)\n    {TOTAL}\n")),
    ),
    # hooks
    Mutant(
        "the hooks are swapped",
        HOOKS,
        (
            (HOOK, '_reach(fault, "after_commit")'),
            ('_reach(fault, "after-commit")', '_reach(fault, "after-total")'),
            ("after_commit", "after-commit"),
        ),
    ),
    Mutant("a known event reaches after-commit", HOOKS, ((RUN, f"fresh = {WRITE}\n    if True:"),)),
    Mutant(
        "a known event reaches after-total", HOOKS, (("        return False", f"        {HOOK}\n        return False"),)
    ),
    Mutant(
        "after-total comes before the total", HOOKS, ((f"    {TOTAL}\n    {HOOK}\n", f"    {HOOK}\n    {TOTAL}\n"),)
    ),
    Mutant(
        "after-commit comes before the COMMIT",
        HOOKS,
        (
            ("    return True", '    _reach(fault, "after-commit")\n    return True'),
            (f'{RUN}\n        _reach(fault, "after-commit")\n    return fresh', f"return {WRITE}"),
        ),
    ),
    Mutant(
        "after-commit is left out",
        HOOKS,
        ((f'{RUN}\n        _reach(fault, "after-commit")\n    return fresh', f"return {WRITE}"),),
    ),
    Mutant(
        "a hook that counts as false is left out",
        "a hook is called if there is one",
        (("    if fault is not None:", "    if fault:"),),
    ),
    Mutant(
        "an error of a hook is wrapped",
        ITSELF,
        (
            (
                "        fault(hook)",
                (
                    "        try:\n            fault(hook)\n        except Exception as error:\n"
                    "            raise RuntimeError(hook) from error"
                ),
            ),
        ),
    ),
    Mutant(
        "an error after the COMMIT is swallowed",
        ITSELF,
        (
            (
                '_reach(fault, "after-commit")',
                'with contextlib.suppress(Exception):\n            _reach(fault, "after-commit")',
            ),
        ),
    ),
    # consume_line
    Mutant("the ACK is of the last event", ACK, (("% seq\n", "% _checkpoint(con)[0]\n"),)),
    Mutant(
        "a known event gets no ACK",
        ACK,
        ((CALLED, '    if not apply_event(con, seq, delta, fault):\n        return b""\n'),),
    ),
    Mutant(
        "an event that was not committed gets its ACK",
        ACK,
        ((CALLED, f"    with contextlib.suppress(sqlite3.OperationalError):\n    {CALLED}"),),
        seen="moov-io/achgateway#138",
    ),
    Mutant(
        "an event in conflict gets its ACK", ACK, ((CALLED, f"    with contextlib.suppress(Conflict):\n    {CALLED}"),)
    ),
    Mutant("the ACK has no LF", ACK, ((r'b"ACK %d\n"', 'b"ACK %d"'),)),
    Mutant("consume_line has no hooks", HOOKS, ((CALLED, "    apply_event(con, seq, delta)\n"),)),
    # open_store
    Mutant(
        "opening sets the checkpoint back",
        KEPT,
        (
            ("if _missing_tables(con) or _missing_checkpoint(con):", "if True:"),
            (
                '    if _missing_checkpoint(con):\n        con.execute("INSERT INTO',
                '    if True:\n        con.execute("INSERT OR REPLACE INTO',
            ),
        ),
    ),
    Mutant(
        "a total of 0 counts as new",
        KEPT,
        (
            ('"SELECT 1 FROM checkpoint"', '"SELECT 1 FROM checkpoint WHERE total != 0"'),
            ("INSERT INTO checkpoint", "REPLACE INTO checkpoint"),
        ),
    ),
    Mutant(
        "a ledger without its checkpoint is thrown away",
        KEPT,
        (
            (
                "    for table in _missing_tables(con):",
                (
                    '    if "checkpoint" in _missing_tables(con):\n        con.execute("DROP TABLE IF EXISTS ledger")\n'
                    "    for table in _missing_tables(con):"
                ),
            ),
        ),
    ),
    Mutant(
        "a missing checkpoint row is not made",
        KEPT,
        (("if _missing_tables(con) or _missing_checkpoint(con):", "if _missing_tables(con):"),),
    ),
    Mutant(
        "the store is made without a transaction",
        "it is made in one transaction",
        (("_write(con, lambda: _create(con))", "_create(con)"),),
    ),
    Mutant(
        "the tables are made by executescript",
        "it is made in one transaction",
        (("con.execute(_TABLES[table])", "con.executescript(_TABLES[table])"),),
        seen="ghaering/pysqlite#59",
    ),
    Mutant(
        "a table that is there is made again", KEPT, (("for table in _missing_tables(con):", "for table in _TABLES:"),)
    ),
    Mutant(
        "a store that cannot be opened stays open",
        "if initialising fails, the connection is closed",
        (
            (
                "            con.close()\n        raise\n    return con",
                "            pass\n        raise\n    return con",
            ),
        ),
    ),
    Mutant(
        "the journal is kept in memory",
        "journal_mode=DELETE",
        (("journal_mode = DELETE", "journal_mode = MEMORY"), ('("delete",)', '("memory",)')),
    ),
    Mutant(
        "the journal is a WAL",
        "journal_mode=DELETE",
        (("journal_mode = DELETE", "journal_mode = WAL"), ('("delete",)', '("wal",)')),
    ),
    Mutant("the disk is not waited for", "synchronous=FULL", (("synchronous = FULL", "synchronous = OFF"),)),
    Mutant("Python begins transactions by itself", "isolation_level=None", ((", isolation_level=None)", ")"),)),
    Mutant(
        "a path is taken for a URI",
        "a path is a file's name",
        (("sqlite3.connect(name, ", 'sqlite3.connect(f"file:{name}", uri=True, '),),
    ),
    Mutant(
        "a path is expanded as a shell would",
        "a store is a local file of just that name",
        (('os.path.join(".", _file_name(path))', "os.path.expandvars(_file_name(path))"),),
    ),
)
