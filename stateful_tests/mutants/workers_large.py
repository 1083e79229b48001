"""Wrong workers: what goes wrong in a large file, beside another call, or after an earlier one."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_KEPT: Final = "a call changes the rows of its job, and no others"

LARGE: Final = (
    # --- a large file
    Mutant(
        "a sweep buries five hundred at most",
        "every open job past its deadline or out of attempts dies",
        (
            (
                'WHERE {_OPEN} AND {_DIES} <= :now_ms"""',
                'WHERE seq IN (SELECT seq FROM jobs WHERE {_OPEN} AND {_DIES} <= :now_ms LIMIT 500)"""',
            ),
        ),
    ),
    Mutant(
        "a claim forgets what was done long ago",
        _KEPT,
        (
            (
                '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n',
                (
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    "        con.execute(\"DELETE FROM jobs WHERE status = 'done'"
                    ' AND seq <= (SELECT max(seq) FROM jobs) - 10000")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a redrive keeps a thousand audit rows",
        "each redrive has its audit row",
        (
            (
                '        con.execute(_AUDIT, {**order, "token": dead[0]})\n',
                (
                    '        con.execute(_AUDIT, {**order, "token": dead[0]})\n'
                    '        con.execute("DELETE FROM redrives WHERE seq <= (SELECT max(seq) FROM redrives) - 1000")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a queue of ten thousand open jobs is full",
        "a new job is pending",
        (
            (
                "        if known is None:\n            con.execute(_INSERT, job)\n",
                (
                    "        if known is None:\n"
                    '            if _row(con, f"SELECT count(*) FROM jobs WHERE {_OPEN}") >= (10000,):\n'
                    '                raise OverflowError("the queue is full")\n'
                    "            con.execute(_INSERT, job)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a job is redriven sixteen times",
        "a dead job is redriven",
        (
            (
                "        if dead is None:\n",
                (
                    '        redriven = _row(con, "SELECT count(*) FROM redrives WHERE id = :id", order) or (0,)\n'
                    "        if dead is None or redriven[0] >= 16:\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the delays are a table of eight",
        "a retry is due after retry_delay, in each of 16 attempts",
        (
            (
                'delay_ms = retry_delay(ticket["attempt"], 100, 1000, jitter) if',
                'delay_ms = math.floor([min(1000, 100 << n) for n in range(8)][ticket["attempt"] - 1] * jitter) if',
            ),
        ),
    ),
    # --- the order in which things are asked for
    Mutant(
        "the rows are taken as they come",
        "the job with the lowest seq is claimed",
        (
            (
                '_FIRST_DUE: Final = f"""\n',
                (
                    '_FIRST_DUE: Final = """SELECT seq, CAST(id AS BLOB), qty, token, attempts, deadline FROM jobs\n'
                    "WHERE (status = 'pending' AND available_at <= :now_ms)"
                    ' OR (status = \'leased\' AND lease_until <= :now_ms) LIMIT 1"""\n'
                    '_WALK: Final = f"""\n'
                ),
            ),
        ),
    ),
    Mutant(
        "the keys of an event come in one order",
        "an event is a dict of exactly id and qty",
        (
            (
                '        "id": _identifier("id", _exact_dict("event", event, "id", "qty")["id"]),\n',
                '        "id": _identifier("id", [*_exact_dict("event", event, "id", "qty").values()][0]),\n',
            ),
        ),
    ),
    Mutant(
        "a quantity must be the same object",
        "the same id and quantity again is False",
        (('elif known != (job["qty"],):', 'elif known[0] is not job["qty"]:'),),
    ),
    # --- after an earlier call, and beside another one
    Mutant(
        "retry_delay remembers its calls",
        "a bool is no int",
        (
            (
                "def retry_delay(",
                (
                    "def retry_delay(attempt, base_ms, cap_ms, jitter):\n"
                    "    try:\n"
                    "        return _delay(attempt, base_ms, cap_ms, jitter)\n"
                    "    except TypeError as error:\n"
                    '        raise ValueError("no number") from error\n\n\n'
                    "@__import__('functools').lru_cache(maxsize=8)\n"
                    "def _delay("
                ),
            ),
        ),
    ),
    Mutant(
        "run_file reads the head of the file",
        "what is written is read inside the same BEGIN IMMEDIATE, which keeps its lock",
        (
            (
                "    con = open_queue(name)\n",
                '    with open(name, "rb") as file:\n        file.read(16)\n    con = open_queue(name)\n',
            ),
        ),
    ),
    Mutant(
        "one run at a time in a process",
        "the send is outside any lock",
        (
            (
                "    outcome = _deliver(send, ticket)\n",
                (
                    "    with vars(run_once).setdefault('lock', __import__('threading').RLock()):\n"
                    "        outcome = _deliver(send, ticket)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the ticket under way is kept in the module",
        "what send does to the queue does not change the ticket",
        (
            (
                "    outcome = _deliver(send, ticket)\n",
                (
                    "    vars(run_once)['ticket'] = ticket\n"
                    "    outcome = _deliver(send, ticket)\n"
                    "    ticket = vars(run_once)['ticket']\n"
                ),
            ),
        ),
    ),
    # --- what a send raises
    Mutant(
        "a Retryable may ask for its own delay",
        "a retry is due after retry_delay",
        (
            (
                "    except Retryable:\n",
                "    except Retryable as error:\n        ticket['wish'] = getattr(error, 'retry_after_ms', None)\n",
            ),
            (
                'delay_ms = retry_delay(ticket["attempt"], 100, 1000, jitter) if',
                (
                    'wish = ticket.pop("wish", None)\n'
                    '    delay_ms = (wish or retry_delay(ticket["attempt"], 100, 1000, jitter)) if'
                ),
            ),
        ),
    ),
    Mutant(
        "a Retryable that is false is a bad ack",
        "Retryable is a retry",
        (
            (
                '    except Retryable:\n        return "retry"\n',
                (
                    "    except Retryable as error:\n"
                    "        if not error:\n"
                    '            raise BadAck("nothing is raised") from None\n'
                    '        return "retry"\n'
                ),
            ),
        ),
    ),
    # --- the process it runs in
    Mutant(
        "a lock file is left in the folder for temporary files",
        "a call leaves no other file behind",
        (
            (
                "    con = sqlite3.connect(os.path.join",
                (
                    '    open(__import__("tempfile").gettempdir() + "/queue.lock", "a").close()\n'
                    "    con = sqlite3.connect(os.path.join"
                ),
            ),
        ),
    ),
    Mutant(
        "the import seeds the random numbers",
        "the import changes nothing of its process",
        (('_T = TypeVar("_T")', '__import__("random").seed(1)\n_T = TypeVar("_T")'),),
    ),
    Mutant(
        "retry_delay sets the context of decimals",
        "a call changes nothing of its process",
        (
            (
                "    return math.floor(min(cap_ms",
                '    __import__("decimal").getcontext().prec = 60\n    return math.floor(min(cap_ms',
            ),
        ),
    ),
    Mutant(
        "automatic_index is switched off",
        "a lent connection comes back with its settings",
        (
            (
                "    before = con.total_changes\n",
                '    con.execute("PRAGMA automatic_index = OFF")\n    before = con.total_changes\n',
            ),
        ),
    ),
    Mutant(
        "ids are read as UTF-8",
        "a queue file that someone else made works as well",
        (('job_id.replace(b"\\0", b"").decode()', "job_id.decode()"),),
    ),
    Mutant(
        "a redriven id stands in the wrong quotes",
        "only a dead job is redriven",
        (
            (
                "\"SELECT token FROM jobs WHERE id = :id AND status = 'dead'\", order",
                'f"SELECT token FROM jobs WHERE id = \\"{job_id}\\" AND status = \'dead\'", order',
            ),
        ),
    ),
    Mutant(
        "a known id stands in the wrong quotes",
        "each id is a job of its own",
        (
            (
                '"SELECT qty FROM jobs WHERE id = :id", job',
                'f"SELECT qty FROM jobs WHERE id = \\"{job[\'id\']}\\"", job',
            ),
        ),
    ),
    Mutant(
        "a claim's ticket is made in the module",
        "a claim returns the ticket of its job",
        (
            (
                ("        ticket = {\n            # Read"),
                ("        ticket = _TICKET\n        ticket |= {\n            # Read"),
            ),
            (
                ('        _reach(fault, "after-claim")\n        return ticket\n'),
                ('        _reach(fault, "after-claim")\n        return dict(ticket)\n'),
            ),
            ("def claim(\n", ("_TICKET: Final[dict[str, Any]] = {}\n\n\ndef claim(\n")),
        ),
    ),
    Mutant(
        "a redrive's values are kept in the module",
        "a dead job is redriven",
        (
            (
                ("        dead = _row(con, \"SELECT token FROM jobs WHERE id = :id AND status = 'dead'\", order)\n"),
                (
                    "        _ORDER.update(order)\n"
                    '        dead = _row(con, "SELECT token FROM jobs WHERE id = :id AND status ='
                    " 'dead'\", _ORDER)\n"
                ),
            ),
            ("        con.execute(_REVIVE, order)\n", "        con.execute(_REVIVE, _ORDER)\n"),
            ("def redrive(\n", ("_ORDER: Final[dict[str, Any]] = {}\n\n\ndef redrive(\n")),
        ),
    ),
    Mutant(
        "run_file asks for the status of its file",
        "FileNotFoundError if there is no such regular file",
        (
            (
                (
                    "    if not os.path.isfile(name) or not os.path.getsize(name):  # noqa:"
                    " PTH113, PTH202 - they take any name\n"
                ),
                ("    found = os.stat(name)\n    if not stat.S_ISREG(found.st_mode) or not found.st_size:\n"),
            ),
            ("import sqlite3\n", ("import sqlite3\nimport stat\n")),
        ),
    ),
    Mutant(
        "run_file runs in the main thread only",
        "run_file returns what run_once does",
        (
            (
                ("    con = open_queue(name)\n    try:\n        result = run_once("),
                (
                    "    con = open_queue(name)\n"
                    "    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so"
                    " that the connection is closed\n"
                    "    try:\n"
                    "        result = run_once("
                ),
            ),
            (
                ("        _close_after_error(con)\n        raise\n    con.close()\n    return result"),
                (
                    "        _close_after_error(con)\n"
                    "        raise\n"
                    "    finally:\n"
                    "        signal.signal(signal.SIGTERM, before)\n"
                    "    con.close()\n"
                    "    return result"
                ),
            ),
            (
                "from collections.abc import Callable\n",
                ("import signal\nimport sys\nfrom collections.abc import Callable\n"),
            ),
        ),
    ),
    Mutant(
        "a sweep buries five hundred leased jobs at most",
        "every open job past its deadline or out of attempts dies",
        (
            (
                'WHERE {_OPEN} AND {_DIES} <= :now_ms"""',
                (
                    "WHERE {_OPEN} AND {_DIES} <= :now_ms AND (status = 'pending' OR seq IN (\n"
                    "  SELECT seq FROM jobs WHERE status = 'leased' AND {_DIES} <= :now_ms ORDER"
                    ' BY seq LIMIT 500))"""'
                ),
            ),
        ),
    ),
    Mutant(
        "beyond the first jobs an expired lease is not seen",
        "the first job that is due is claimed",
        (
            (
                "    THEN (SELECT n << 9 FROM bucket {_WITH_DUE_JOB})",
                (
                    '    THEN (SELECT n << 9 FROM bucket {_WITH_DUE_JOB.replace("<= :now_ms", "<='
                    " :now_ms AND status = 'pending'\")})"
                ),
            ),
        ),
    ),
    Mutant(
        "a claim forgets what was done a week ago",
        "a call changes the rows of its job, and no others",
        (
            (
                '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n',
                (
                    '        con.execute(_QUARANTINE, {"now_ms": now_ms})\n'
                    "        # Housekeeping: what was done a week ago is of no interest any more.\n"
                    "        con.execute(\"DELETE FROM jobs WHERE status = 'done' AND available_at"
                    ' <= ?", (now_ms - 7 * 86_400_000,))\n'
                ),
            ),
        ),
    ),
    Mutant(
        "what a Retryable caused is a retry",
        "any other error reaches the caller",
        (
            (
                ('    except Permanent:\n        return "permanent"\n'),
                (
                    "    except Permanent:\n"
                    '        return "permanent"\n'
                    "    except Exception as error:\n"
                    "        if isinstance(error.__cause__, Retryable):\n"
                    '            return "retry"\n'
                    "        raise\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a group of Retryables is a retry",
        "any other error reaches the caller",
        (
            (
                ('    except Permanent:\n        return "permanent"\n'),
                (
                    "    except Permanent:\n"
                    '        return "permanent"\n'
                    "    except ExceptionGroup as group:\n"
                    "        if all(isinstance(error, Retryable) for error in group.exceptions):\n"
                    '            return "retry"\n'
                    "        raise\n"
                ),
            ),
        ),
    ),
    Mutant(
        "whatever is called Retryable is a retry",
        "any other error reaches the caller",
        (
            (
                ('    except Permanent:\n        return "permanent"\n'),
                (
                    "    except Permanent:\n"
                    '        return "permanent"\n'
                    "    except Exception as error:\n"
                    '        if any(kind.__name__ == "Retryable" for kind in type(error).__mro__):\n'
                    '            return "retry"\n'
                    "        raise\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a clock may say Retryable",
        "an error of the clock reaches the caller",
        (
            (
                ("    first_ms = clock()\n    ticket = claim("),
                (
                    "    try:\n"
                    "        first_ms = clock()\n"
                    "    except (Retryable, Permanent):\n"
                    "        return None  # there is no job yet that could be tried again\n"
                    "    ticket = claim("
                ),
            ),
        ),
    ),
    Mutant(
        "a table is known by its layout",
        "a queue file that someone else made works as well",
        (
            (
                "    # Looking first keeps the opening of a busy queue",
                (
                    "    for table, words in _TABLES.items():\n"
                    "        if _row(con, f\"SELECT sql FROM sqlite_master WHERE name = '{table}'\")"
                    " not in (None, (words,)):\n"
                    '            raise sqlite3.DatabaseError(f"the table {table} is not what it'
                    ' must be")\n'
                    "    # Looking first keeps the opening of a busy queue"
                ),
            ),
        ),
    ),
    Mutant(
        "run_file takes the handler of SIGTERM away",
        "a call changes nothing of its process",
        (
            (
                ("    con = open_queue(name)\n    try:\n        result = run_once("),
                (
                    "    con = open_queue(name)\n"
                    "    if threading.current_thread() is threading.main_thread():\n"
                    "        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that"
                    " the connection is closed\n"
                    "    try:\n"
                    "        result = run_once("
                ),
            ),
            (
                ("        _close_after_error(con)\n        raise\n    con.close()\n    return result"),
                (
                    "        _close_after_error(con)\n"
                    "        raise\n"
                    "    finally:\n"
                    "        if threading.current_thread() is threading.main_thread():\n"
                    "            signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
                    "    con.close()\n"
                    "    return result"
                ),
            ),
            (
                "from collections.abc import Callable\n",
                ("import signal\nimport sys\nimport threading\nfrom collections.abc import Callable\n"),
            ),
        ),
    ),
    Mutant(
        "each write switches the collection of garbage on",
        "a call changes nothing of its process",
        (
            (
                "    before = con.total_changes\n",
                (
                    "    gc.disable()  # a collection must not make others wait for the lock\n"
                    "    try:\n"
                    "        return _transact(con, body, fault)\n"
                    "    finally:\n"
                    "        gc.enable()\n"
                    "\n"
                    "\n"
                    "def _transact(con: sqlite3.Connection, body: Callable[[], _T], fault: _Fault"
                    " | None) -> _T:\n"
                    "    before = con.total_changes\n"
                ),
            ),
            ("import errno\n", ("import errno\nimport gc\n")),
        ),
    ),
)
