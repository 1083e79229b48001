"""Wrong clients: what goes wrong in a long stream, beside another call, or after an earlier one."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

LARGE: Final = (
    Mutant(
        "the ledger keeps ten thousand events",
        "the ledger keeps every event",
        (
            (
                '    _reach(fault, "after-total")\n',
                (
                    '    _reach(fault, "after-total")\n'
                    '    con.execute("DELETE FROM ledger WHERE seq <= ?", (seq - 10_000,))\n'
                ),
            ),
        ),
    ),
    Mutant(
        "what came long ago is not compared",
        "another delta is a Conflict, however long ago the event was",
        (("    if seq <= last:\n", "    if seq <= last - 5000:\n        return False\n    if seq <= last:\n"),),
    ),
    Mutant(
        "a log is looked at once",
        "replay returns the events after the cursor",
        (
            (
                "    first, last = _span(log)\n",
                (
                    "    known = vars(replay).setdefault('known', [None, 0, None])\n"
                    "    if log is not known[0] or len(log) != known[1]:\n"
                    "        known[:] = log, len(log), _span(log)\n"
                    "    first, last = known[2]\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a session ends after ten thousand lines",
        "a session lasts until the publisher closes it",
        (
            (
                "        while line := await _next_line(reader, timeout):\n",
                (
                    "        for _ in range(10_000):\n"
                    "            if not (line := await _next_line(reader, timeout)):\n"
                    "                break\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the progress is kept in the module",
        "a session returns last and total of its own store",
        (
            ("        result = _checkpoint(con)\n", "        result = vars(_receive)['at']\n"),
            (
                "            await _send(writer, consume_line(con, line, fault), timeout)\n",
                (
                    "            ack = consume_line(con, line, fault)\n"
                    "            vars(_receive)['at'] = _checkpoint(con)\n"
                    "            await _send(writer, ack, timeout)\n"
                ),
            ),
            (
                '        await _send(writer, b"RESUME %d\\n" % _checkpoint(con)[0], timeout)\n',
                (
                    "        vars(_receive)['at'] = _checkpoint(con)\n"
                    '        await _send(writer, b"RESUME %d\\n" % _checkpoint(con)[0], timeout)\n'
                ),
            ),
        ),
    ),
    Mutant(
        "open_store reads the head of the file",
        "under BEGIN IMMEDIATE nobody else writes",
        (
            (
                "    con = sqlite3.connect(name, timeout=1, isolation_level=None)\n",
                (
                    "    if os.path.isfile(name):\n"
                    '        with open(name, "rb") as file:\n'
                    "            file.read(16)\n"
                    "    con = sqlite3.connect(name, timeout=1, isolation_level=None)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the import takes away the limit of digits",
        "the import changes nothing of its process",
        (('_T = TypeVar("_T")', '__import__("sys").set_int_max_str_digits(0)\n_T = TypeVar("_T")'),),
    ),
    Mutant(
        "automatic_index is switched off",
        "a lent connection comes back with its settings",
        (
            (
                "    # No context manager: an interrupt",
                '    con.execute("PRAGMA automatic_index = OFF")\n    # No context manager: an interrupt',
            ),
        ),
    ),
    Mutant(
        "the event under way is kept in the module",
        "an event's changes are its own",
        (
            (
                (
                    '    con.execute("UPDATE checkpoint SET total = total + ? WHERE id = 1", (delta,))\n'
                    '    _reach(fault, "after-total")\n'
                    '    con.execute("UPDATE checkpoint SET last = ? WHERE id = 1", (seq,))\n'
                ),
                (
                    "    _current.update(seq=seq, delta=delta)\n"
                    '    con.execute("UPDATE checkpoint SET total = total + :delta WHERE id = 1",'
                    " _current)\n"
                    '    _reach(fault, "after-total")\n'
                    '    con.execute("UPDATE checkpoint SET last = :seq WHERE id = 1", _current)\n'
                ),
            ),
            (
                "def _apply(",
                (
                    "_current: Final[dict[str, int]] = {}\n"
                    '"""The event under way, for whoever wants to show it."""\n'
                    "\n"
                    "\n"
                    "def _apply("
                ),
            ),
        ),
    ),
    Mutant(
        "each event switches the collection of garbage on",
        "a call changes nothing of its process",
        (
            (
                (
                    "    if fresh := _write(con, lambda: _apply(con, seq, delta, fault)):\n"
                    '        _reach(fault, "after-commit")\n'
                ),
                (
                    "    gc.disable()  # a collection must not make others wait for the lock\n"
                    "    try:\n"
                    "        fresh = _write(con, lambda: _apply(con, seq, delta, fault))\n"
                    "    finally:\n"
                    "        gc.enable()\n"
                    "    if fresh:\n"
                    '        _reach(fault, "after-commit")\n'
                ),
            ),
            ("import contextlib\n", ("import contextlib\nimport gc\n")),
        ),
    ),
)
