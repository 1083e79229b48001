"""Wrong workers: running from a file."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

FILES: Final = (
    # --- run_file
    Mutant(
        "run_file makes a queue where there is none",
        "FileNotFoundError if there is no file, and nothing is created",
        (
            (
                "if not os.path.isfile(name) or not os.path.getsize(name):",
                "if os.path.isfile(name) and not os.path.getsize(name):",
            ),
        ),
        seen="python/cpython#89418",
    ),
    Mutant(
        "run_file takes an empty file for a queue",
        "FileNotFoundError if the file is empty",
        (("if not os.path.isfile(name) or not os.path.getsize(name):", "if not os.path.isfile(name):"),),
        seen="python/cpython#89418",
    ),
    Mutant(
        "run_file takes a folder for a queue",
        "FileNotFoundError if there is no regular file",
        (("if not os.path.isfile(name) or", "if not os.path.exists(name) or"),),
    ),
    Mutant(
        "run_file makes the file that a link misses",
        "a dangling link is no file, and nothing is created",
        (
            (
                "if not os.path.isfile(name) or not os.path.getsize(name):",
                (
                    "if not os.path.lexists(name) or (os.path.exists(name) and (os.path.isdir(name) or"
                    " not os.path.getsize(name))):"
                ),
            ),
        ),
    ),
    Mutant(
        "a missing file is an error of SQLite's",
        "FileNotFoundError if there is no file",
        (
            (
                'raise FileNotFoundError(errno.ENOENT, "no queue file", name)',
                'raise sqlite3.OperationalError("unable to open database file")',
            ),
        ),
    ),
    Mutant(
        "run_file probes with a read-only connection",
        "a hot journal is rolled back after a kill",
        (
            (
                "    con = open_queue(name)\n",
                (
                    "    with"
                    ' contextlib.closing(sqlite3.connect(f"file:{os.path.abspath(name)}?mode=ro",'
                    " uri=True)) as probe:\n"
                    '        probe.execute("SELECT count(*) FROM sqlite_master").fetchone()\n'
                    "    con = open_queue(name)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "run_file opens with sqlite3's own settings",
        "run_file works on a connection from open_queue",
        (("    con = open_queue(name)\n", "    con = sqlite3.connect(name, isolation_level=None)\n"),),
    ),
    Mutant(
        "run_file never closes its connection",
        "run_file closes its connection",
        (
            (
                "    con.close()\n    return result",
                "    globals().setdefault('_KEPT', []).append(con)\n    return result",
            ),
        ),
    ),
    Mutant(
        "run_file closes its connection on success only",
        "run_file closes its connection on every failure",
        (
            (
                "    except BaseException:\n        _close_after_error(con)\n        raise\n    con.close()",
                (
                    "    except BaseException:\n"
                    "        globals().setdefault('_KEPT', []).append(con)\n"
                    "        raise\n"
                    "    con.close()"
                ),
            ),
        ),
    ),
    Mutant(
        "run_file closes no connection on an interrupt",
        "run_file closes its connection on every failure",
        (
            (
                "    except BaseException:\n        _close_after_error(con)\n        raise\n    con.close()",
                "    except Exception:\n        _close_after_error(con)\n        raise\n    con.close()",
            ),
        ),
        seen="raiden-network/raiden#3842",
    ),
    Mutant(
        "run_file forgets its lease",
        "run_file claims for lease_ms",
        (
            (
                "        result = run_once(con, owner, clock, send, jitter, lease_ms)",
                "        result = run_once(con, owner, clock, send, jitter)",
            ),
        ),
    ),
    Mutant(
        "run_file returns nothing",
        "run_file returns the result of run_once",
        (("    con.close()\n    return result", "    con.close()\n    return None"),),
    ),
    Mutant(
        "run_file works until the queue is empty",
        "run_file is one run_once",
        (
            (
                "        result = run_once(con, owner, clock, send, jitter, lease_ms)\n",
                (
                    "        result = None\n"
                    "        while one := run_once(con, owner, clock, send, jitter, lease_ms):\n"
                    "            result = one\n"
                ),
            ),
        ),
    ),
    Mutant(
        "run_file opens its file by itself",
        "run_file owns a connection from open_queue",
        (
            (
                "    con = open_queue(name)\n",
                (
                    "    con = sqlite3.connect(name, timeout=1, isolation_level=None)\n"
                    '    con.execute("SELECT count(*) FROM sqlite_master").fetchone()\n'
                ),
            ),
        ),
    ),
    Mutant(
        "run_file asks for no synchronous=FULL",
        "run_file owns a connection from open_queue",
        (
            (
                "    con = open_queue(name)\n",
                '    con = open_queue(name)\n    con.execute("PRAGMA synchronous = NORMAL")\n',
            ),
        ),
    ),
    Mutant(
        "run_file expects its tables",
        "run_file owns a connection from open_queue",
        (
            (
                "    con = open_queue(name)\n",
                (
                    "    con = sqlite3.connect(name, timeout=1, isolation_level=None)\n"
                    '    con.execute("PRAGMA journal_mode = DELETE").fetchone()\n'
                    '    con.execute("PRAGMA synchronous = FULL")\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a path is expanded as a shell would",
        "a queue is a local file of just that name",
        ((" name = _file_name(path)\n    if name in", " name = os.path.expandvars(_file_name(path))\n    if name in"),),
    ),
)
