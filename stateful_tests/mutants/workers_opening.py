"""Wrong workers: the errors, the schema, and opening a queue file."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

OPENING: Final = (
    # --- the errors
    Mutant(
        "Permanent is a Retryable",
        "none of the four errors is a subclass of another",
        (("class Permanent(Exception)", "class Permanent(Retryable)"),),
    ),
    Mutant(
        "BadAck is a Retryable",
        "none of the four errors is a subclass of another",
        (("class BadAck(Exception)", "class BadAck(Retryable)"),),
    ),
    # --- the schema
    Mutant(
        "an id may stand in two rows",
        "the tables are word for word the contract's",
        (("id TEXT NOT NULL UNIQUE,", "id TEXT NOT NULL,"),),
    ),
    Mutant(
        "any word is a status",
        "the tables are word for word the contract's",
        ((" CHECK(status IN ('pending','leased','done','dead'))", ""),),
    ),
    Mutant(
        "a row number can be used again",
        "the tables are word for word the contract's",
        (("CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT", "CREATE TABLE jobs (seq INTEGER PRIMARY KEY"),),
    ),
    Mutant(
        "jobs has a further column",
        "the tables are word for word the contract's",
        (("lease_until INTEGER, reason TEXT)", "lease_until INTEGER, reason TEXT, created_at INTEGER)"),),
    ),
    Mutant(
        "the file has a third table",
        "there are these two tables and no other",
        (('"redrives": """', '"meta": "CREATE TABLE meta (version INTEGER)",\n    "redrives": """'),),
    ),
    Mutant(
        "the tables are made IF NOT EXISTS",
        "the tables are word for word the contract's",
        (("con.execute(_TABLES[table])", 'con.execute(_TABLES[table].replace("TABLE", "TABLE IF NOT EXISTS"))'),),
        equivalent="SQLite stores the text of a table without these words, and only tables that are missing are made",
    ),
    # --- open_queue
    Mutant(
        "two jobs cannot die at the same time",
        "an index changes no outcome",
        (("CREATE INDEX jobs_by_death", "CREATE UNIQUE INDEX jobs_by_death"),),
    ),
    Mutant(
        "no index is made",
        "an index changes no outcome",
        (("for index in _INDEXES if", "for index in () if"),),
        equivalent="the contract asks for no index: a claim only takes longer, as in a file made by someone else",
    ),
    Mutant(
        "an in-memory queue is opened",
        "a queue is a local file, never a database in memory",
        (('if name in ("", ":memory:"):', 'if name == "":'), ('os.path.join(".", name)', "name")),
    ),
    Mutant(
        "an empty path is opened",
        "an empty path is a ValueError",
        (('if name in ("", ":memory:"):', 'if name == ":memory:":'),),
    ),
    Mutant(
        "a path is read as a URI",
        "a path is taken to the letter",
        (('os.path.join(".", name), timeout=1', '"file:" + name, uri=True, timeout=1'),),
    ),
    Mutant(
        "a path object is refused",
        "an os.PathLike is a path",
        (("path.__fspath__() if isinstance(path, os.PathLike) else path", "path"),),
    ),
    Mutant(
        "a path of bytes is opened",
        "what is neither a str nor an os.PathLike of one is a ValueError",
        (
            (
                "    if isinstance(name, str):",
                "    name = os.fsdecode(name) if isinstance(name, bytes) else name\n    if isinstance(name, str):",
            ),
        ),
    ),
    Mutant(
        "a number for a path is a TypeError",
        "what is neither a str nor an os.PathLike is a ValueError",
        (
            (
                "path.__fspath__() if isinstance(path, os.PathLike) else path",
                "os.fspath(path)  # type: ignore[call-overload]",
            ),
        ),
    ),
    Mutant("a connection waits for no lock", "the timeout is 1 s", (("timeout=1, isol", "timeout=0, isol"),)),
    Mutant(
        "Python opens transactions by itself",
        "isolation_level is None",
        (("isolation_level=None)", 'isolation_level="DEFERRED")'),),
        seen="ghaering/pysqlite#59",
    ),
    Mutant(
        "a connection that cannot be set up stays open",
        "if initialising fails, the connection is closed",
        (
            (
                "        _initialise(con)\n    except BaseException:\n        _close_after_error(con)\n",
                "        _initialise(con)\n    except BaseException:\n",
            ),
        ),
    ),
    Mutant(
        "a queue in WAL stays in WAL",
        "a file in WAL mode becomes DELETE or the call fails",
        (
            (
                'if _row(con, "PRAGMA journal_mode = DELETE") != ("delete",):',
                'if _row(con, "PRAGMA journal_mode") is None:',
            ),
        ),
    ),
    Mutant(
        "a change from WAL that failed goes unsaid",
        "a file in WAL mode becomes DELETE or the call fails",
        (
            (
                '    if _row(con, "PRAGMA journal_mode = DELETE") != ("delete",):\n',
                (
                    "    row = None\n"
                    "    with contextlib.suppress(sqlite3.OperationalError):\n"
                    '        row = _row(con, "PRAGMA journal_mode = DELETE")\n'
                    '    if row == ("memory",):\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the journal is a WAL",
        "journal_mode is DELETE",
        (('"PRAGMA journal_mode = DELETE") != ("delete",)', '"PRAGMA journal_mode = WAL") != ("wal",)'),),
    ),
    Mutant(
        "the journal is truncated, not deleted",
        "journal_mode is DELETE",
        (('"PRAGMA journal_mode = DELETE") != ("delete",)', '"PRAGMA journal_mode = TRUNCATE") != ("truncate",)'),),
    ),
    Mutant(
        "the journal is kept in memory",
        "journal_mode is DELETE",
        (('"PRAGMA journal_mode = DELETE") != ("delete",)', '"PRAGMA journal_mode = MEMORY") != ("memory",)'),),
    ),
    Mutant("a commit is half synced", "synchronous is FULL", (("synchronous = FULL", "synchronous = NORMAL"),)),
    Mutant(
        "opening frees the leased jobs",
        "opening leaves existing rows as they are",
        (
            (
                '    con.execute("PRAGMA synchronous = FULL")\n',
                (
                    '    con.execute("PRAGMA synchronous = FULL")\n'
                    '    if "jobs" not in _missing_tables(con):\n'
                    "        con.execute(\"UPDATE jobs SET status = 'pending', owner = NULL, lease_until"
                    " = NULL WHERE status = 'leased'\")\n"
                ),
            ),
        ),
        seen="cofin/litestar-queues#36",
    ),
    Mutant(
        "opening waits for the write lock",
        "opening a busy queue never waits for the write lock",
        (("    if _missing_tables(con):", "    if True:"),),
    ),
    Mutant(
        "what is missing is looked up before the lock alone",
        "several processes may open a new file at once",
        (
            ("    if _missing_tables(con):", "    if missing := _missing_tables(con):"),
            ("_create_tables(con, _missing_tables(con))", "_create_tables(con, missing)"),
        ),
    ),
    Mutant(
        "the tables are made without the write lock",
        "several processes may open a new file at once",
        (('con.execute("BEGIN IMMEDIATE")\n        _create', 'con.execute("BEGIN")\n        _create'),),
    ),
    Mutant(
        "each table is made in a transaction of its own",
        "both tables are made in one transaction",
        (
            ('        con.execute("BEGIN IMMEDIATE")\n        _create', "        _create"),
            ('_missing_tables(con))\n        con.execute("COMMIT")', "_missing_tables(con))"),
        ),
    ),
    Mutant(
        "the tables are made by executescript",
        "both tables are made in one transaction",
        (
            ("con.execute(_TABLES[table])", "con.executescript(_TABLES[table])"),
            ('        con.execute("COMMIT")\n\n\ndef _missing', "\n\ndef _missing"),
        ),
        seen="ksterx/srunx#199",
    ),
    Mutant(
        "the making of the tables is not committed",
        "no transaction is left open",
        (('_missing_tables(con))\n        con.execute("COMMIT")', "_missing_tables(con))"),),
    ),
    Mutant(
        "only jobs is looked for",
        "each table is made where it is missing",
        (
            (
                "return [table for table in _TABLES if (table,) not in there]",
                'return [] if ("jobs",) in there else [*_TABLES]',
            ),
        ),
    ),
    Mutant(
        "all tables are made where one is missing",
        "each table is made where it is missing",
        (
            (
                "for table in _TABLES if (table,) not in there]",
                'for table in _TABLES if (("jobs",) not in there or ("redrives",) not in there)]',
            ),
        ),
    ),
    Mutant(
        "a queue made by someone else gets indexes",
        "a queue file made by someone else keeps its schema",
        (
            (
                "    if _missing_tables(con):",
                (
                    "    missing = _missing_tables(con)\n"
                    "    if not missing:\n"
                    "        for index in _INDEXES:\n"
                    "            con.execute(index.replace('INDEX', 'INDEX IF NOT EXISTS'))\n"
                    "    if missing:"
                ),
            ),
        ),
    ),
    Mutant(
        "indexes are made where jobs is there",
        "each table is made where it is missing, however often",
        (('for index in _INDEXES if "jobs" in tables', 'for index in _INDEXES if "jobs" not in tables'),),
    ),
)
