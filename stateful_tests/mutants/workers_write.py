"""Wrong workers: the transaction that every change runs in, and the hooks."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_OWN: Final = "a caller's open transaction is neither joined nor ended"
_HOOK: Final = "a hook's error arrives as the very same object"
_NONE_LEFT: Final = "no transaction is left open"
_RACE: Final = "what is written is read inside the same BEGIN IMMEDIATE"

WRITE: Final = (
    # --- before BEGIN
    Mutant(
        "a failed BEGIN rolls the caller's transaction back",
        _OWN,
        (("    if con.in_transaction:\n", "    if False:\n"),),
        seen="expo/expo#49727",
    ),
    Mutant(
        "the caller's transaction is committed first",
        _OWN,
        (
            (
                '        raise sqlite3.ProgrammingError("the connection has an open transaction")\n',
                "        con.commit()\n",
            ),
        ),
        seen="ksterx/srunx#199",
    ),
    Mutant(
        "the caller's transaction is joined",
        _OWN,
        (
            (
                '        raise sqlite3.ProgrammingError("the connection has an open transaction")\n',
                "        return body()\n",
            ),
        ),
    ),
    # --- BEGIN
    Mutant(
        "a write begins without the write lock",
        _RACE,
        (('con.execute("BEGIN IMMEDIATE")\n        result', 'con.execute("BEGIN")\n        result'),),
        seen="seatgeek/djjob#2",
    ),
    Mutant(
        "each statement commits by itself",
        _RACE,
        (
            ('        con.execute("BEGIN IMMEDIATE")\n        result', "        result"),
            ('        con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n', ""),
        ),
    ),
    Mutant(
        "`with con` is taken for a transaction",
        _RACE,
        (
            (
                '        con.execute("BEGIN IMMEDIATE")\n        result = body()\n',
                "        with con:\n            result = body()\n",
            ),
            ('        con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n', ""),
        ),
        seen="ghaering/pysqlite#59",
    ),
    Mutant(
        "a transaction begins by executescript",
        _RACE,
        (('con.execute("BEGIN IMMEDIATE")\n        result', 'con.executescript("BEGIN;")\n        result'),),
    ),
    Mutant(
        "a failing BEGIN is tried without a lock",
        _RACE,
        (
            (
                '        con.execute("BEGIN IMMEDIATE")\n        result',
                (
                    "        try:\n"
                    '            con.execute("BEGIN IMMEDIATE")\n'
                    "        except sqlite3.OperationalError:\n"
                    '            con.execute("BEGIN")\n'
                    "        result"
                ),
            ),
        ),
        equivalent="with journal_mode=DELETE nobody commits between a transaction's first read and its first write",
    ),
    # --- COMMIT
    Mutant(
        "an empty poll rolls its sweep back",
        "the quarantine is kept where the claim finds nothing",
        (('"ROLLBACK" if con.total_changes == before else "COMMIT"', '"COMMIT" if result else "ROLLBACK"'),),
        seen="constructorfabric/gears-rust#1661",
    ),
    Mutant(
        "nothing is committed",
        "what succeeds is committed",
        (('"ROLLBACK" if con.total_changes == before else "COMMIT"', '"ROLLBACK"'),),
    ),
    Mutant(
        "a transaction stays open where nothing changed",
        _NONE_LEFT,
        (
            (
                'con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")',
                'con.total_changes == before or con.execute("COMMIT")',
            ),
        ),
    ),
    Mutant(
        "what changed nothing is committed too",
        "a call may fail as locked beside a reader",
        (('"ROLLBACK" if con.total_changes == before else "COMMIT"', '"COMMIT"'),),
        equivalent=(
            "beside a reader it may fail as locked where it need not, which the contract allows; no row differs"
        ),
    ),
    Mutant(
        "a busy COMMIT counts as done",
        "a COMMIT that fails is an error",
        (
            (
                '        con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n',
                (
                    "        try:\n"
                    '            con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n'
                    "        except sqlite3.OperationalError:\n"
                    '            con.execute("ROLLBACK")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a busy COMMIT leaves its transaction open",
        _NONE_LEFT,
        (
            ('        con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n    except', "    except"),
            (
                "        raise\n    if result:\n",
                (
                    "        raise\n"
                    '    con.execute("ROLLBACK" if con.total_changes == before else "COMMIT")\n'
                    "    if result:\n"
                ),
            ),
        ),
        seen="oven-sh/bun#33748",
    ),
    # --- ROLLBACK
    Mutant(
        "an interrupt leaves the transaction open",
        _NONE_LEFT,
        (("    except BaseException:\n        # A full", "    except Exception:\n        # A full"),),
        seen="raiden-network/raiden#3842",
    ),
    Mutant(
        "a failing ROLLBACK hides the first error",
        _HOOK,
        (
            (
                '        with contextlib.suppress(Exception):\n            con.execute("ROLLBACK")',
                '        con.execute("ROLLBACK")',
            ),
        ),
        seen="jdbi/jdbi#471",
    ),
    Mutant(
        "a failure is not rolled back",
        _NONE_LEFT,
        (('        with contextlib.suppress(Exception):\n            con.execute("ROLLBACK")\n', ""),),
        seen="oven-sh/bun#33748",
    ),
    Mutant(
        "a failure is committed",
        "an error before COMMIT rolls everything back",
        (
            (
                'suppress(Exception):\n            con.execute("ROLLBACK")',
                'suppress(Exception):\n            con.execute("COMMIT")',
            ),
        ),
    ),
    Mutant(
        "an error is wrapped into another",
        _HOOK,
        (
            (
                '            con.execute("ROLLBACK")\n        raise\n',
                '            con.execute("ROLLBACK")\n        raise RuntimeError("rolled back")\n',
            ),
        ),
    ),
    Mutant(
        "a failure closes the lent connection",
        "a lent connection is never closed",
        (('            con.execute("ROLLBACK")\n        raise\n', "            con.close()\n        raise\n"),),
    ),
    # --- hooks
    Mutant(
        "a hook that is falsy is not called",
        "only fault=None calls nothing",
        (("    if fault is not None:\n", "    if fault:\n"),),
    ),
    Mutant(
        "a hook's error is swallowed",
        "a hook's error reaches the caller",
        (
            (
                "    if fault is not None:\n        fault(hook)",
                "    if fault is not None:\n        with contextlib.suppress(Exception):\n            fault(hook)",
            ),
        ),
    ),
    Mutant(
        "after-commit is reached where the result is False",
        "no hook is called where the result is None or False",
        (("    if result:\n        _reach(", "    if result is not None:\n        _reach("),),
    ),
    Mutant(
        "after-commit is reached before the COMMIT",
        "after-commit comes after the COMMIT",
        (
            (
                "        result = body()\n",
                '        result = body()\n        if result:\n            _reach(fault, "after-commit")\n',
            ),
            ('    if result:\n        _reach(fault, "after-commit")\n    return result', "    return result"),
        ),
    ),
    Mutant(
        "after-commit is reached inside the try",
        "no rollback is tried after the COMMIT",
        (
            (
                '"COMMIT")\n    except',
                '"COMMIT")\n        if result:\n            _reach(fault, "after-commit")\n    except',
            ),
            ('    if result:\n        _reach(fault, "after-commit")\n    return result', "    return result"),
        ),
        equivalent="after the COMMIT there is nothing to roll back: the ROLLBACK fails, and its error is suppressed",
    ),
    Mutant(
        "after-commit is never reached",
        "after-commit comes after the COMMIT",
        (('    if result:\n        _reach(fault, "after-commit")\n    return result', "    return result"),),
    ),
    # --- reading a row
    Mutant(
        "a row is what the caller's row_factory makes",
        "a call works under any row_factory",
        (("        cursor.row_factory = None\n", ""),),
    ),
    Mutant(
        "the caller's row_factory is taken away",
        "a lent connection comes back with its settings",
        (("        cursor.row_factory = None\n", "        con.row_factory = cursor.row_factory = None\n"),),
    ),
    Mutant(
        "a call sets the lent connection's timeout",
        "a lent connection comes back with its settings",
        (
            (
                "    before = con.total_changes\n",
                '    before = con.total_changes\n    con.execute("PRAGMA busy_timeout = 1000")\n',
            ),
        ),
    ),
)
