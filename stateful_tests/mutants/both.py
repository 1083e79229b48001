"""Faults of either file: edits of what both hold word for word."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

BOTH: Final = (
    Mutant(
        "each write asks for synchronous=FULL again",
        "a lent connection is returned as it was",
        (
            (
                '        con.execute("BEGIN IMMEDIATE")\n        result',
                (
                    '        con.execute("PRAGMA synchronous = FULL")\n'
                    '        con.execute("BEGIN IMMEDIATE")\n'
                    "        result"
                ),
            ),
        ),
    ),
    Mutant(
        "a lock is waited for whoever says so",
        "the error of a hook arrives as the same object, and the hook is called once",
        (
            (
                '        con.execute("BEGIN IMMEDIATE")\n        result = body()\n',
                (
                    '        con.execute("BEGIN IMMEDIATE")\n'
                    "        try:\n"
                    "            result = body()\n"
                    "        except sqlite3.OperationalError as error:\n"
                    '            if "locked" not in str(error):\n'
                    "                raise\n"
                    '            con.execute("ROLLBACK")\n'
                    '            con.execute("BEGIN IMMEDIATE")\n'
                    "            result = body()\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a hook that returns False forbids the change",
        "a hook is told, not asked",
        (
            (
                ("    if fault is not None:\n        fault(hook)\n"),
                (
                    "    if fault is not None and fault(hook) is False:\n"
                    '        raise sqlite3.InterfaceError(f"vetoed at {hook}")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "each write asks for journal_mode=DELETE again",
        "a lent connection comes back with its settings",
        (
            (
                "    # No context manager: an interrupt can",
                (
                    '    con.execute("PRAGMA journal_mode = DELETE")  # the contract\'s, whoever'
                    " opened it\n"
                    "    # No context manager: an interrupt can"
                ),
            ),
        ),
    ),
    Mutant(
        "each write leaves a TEMP table",
        "a lent connection is returned as it was",
        (
            (
                "    # No context manager: an interrupt can",
                (
                    '    con.execute("CREATE TEMP TABLE IF NOT EXISTS changed (id)")\n'
                    "    # No context manager: an interrupt can"
                ),
            ),
        ),
    ),
    Mutant(
        "a path loses its blanks",
        "a path is taken to the letter",
        (("    return name\n", "    return name.strip()\n"),),
    ),
    Mutant(
        "a path is in lower case",
        "a path is taken to the letter",
        (("    return name\n", "    return os.path.join(os.path.dirname(name), os.path.basename(name).lower())\n"),),
    ),
    Mutant(
        "a path is brought into one form of Unicode",
        "a path is taken to the letter",
        (("    return name\n", '    return __import__("unicodedata").normalize("NFC", name)\n'),),
    ),
    # not to be told from the right one
    Mutant(
        "each write looks first, in a transaction of its own",
        "none",
        (
            (
                '        con.execute("BEGIN IMMEDIATE")\n        result',
                (
                    '        con.execute("BEGIN")\n'
                    '        con.execute("SELECT count(*) FROM sqlite_master").fetchall()\n'
                    '        con.execute("ROLLBACK")\n'
                    '        con.execute("-- and again\\n BEGIN IMMEDIATE")\n'
                    "        result"
                ),
            ),
        ),
        equivalent="what is read there is not used",
    ),
    Mutant(
        "the rows of what was opened are dictionaries",
        "none",
        (
            (
                "        raise\n    return con\n",
                (
                    "        raise\n"
                    "    con.row_factory = lambda cursor, row: dict(zip(next(zip(*cursor.description)), row))\n"
                    "    return con\n"
                ),
            ),
        ),
        equivalent="what its owner reads with it is the owner's",
    ),
)
