"""Wrong receivers that read lines, numbers and logs wrongly."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

SEQ: Final = "EVENT (0|[1-9][0-9]*) "
DELTA: Final = " (0|-?[1-9][0-9]*)"
END: Final = r'[0-9]*)\n")'
EXACT: Final = "type(data) is bytes and"

ONE_WAY: Final = "there is one way to write a number"
A_LINE: Final = "a line is EVENT, seq and delta, one space apart, and one LF"

LINES: Final = (
    # the grammar
    Mutant(
        "a line is split at white space and its words go to int()",
        ONE_WAY,
        ((rf"{SEQ}{DELTA[1:]}\n", r"EVENT\s+(\S+)\s+(\S+)\s*"),),
    ),
    Mutant("a 0 may stand before seq", ONE_WAY, ((SEQ, "EVENT ([0-9]+) "),)),
    Mutant("a 0 may stand before delta", ONE_WAY, ((DELTA, " (0|-?0*[1-9][0-9]*)"),)),
    Mutant("delta may be -0", ONE_WAY, ((DELTA, " (-?0|-?[1-9][0-9]*)"),)),
    Mutant("seq may be -0", ONE_WAY, ((SEQ, "EVENT (-?0|[1-9][0-9]*) "),)),
    Mutant("a + may stand before delta", ONE_WAY, ((DELTA, " (0|[-+]?[1-9][0-9]*)"),)),
    Mutant("a + may stand before seq", ONE_WAY, ((SEQ, "EVENT ([+]?0|[+]?[1-9][0-9]*) "),)),
    Mutant("an underscore may stand in delta", ONE_WAY, ((DELTA, " (0|-?[1-9][0-9]*(?:_[0-9]+)*)"),)),
    Mutant(
        "digits of other alphabets are digits",
        "no digits of other alphabets",
        (
            (f'rb"{SEQ}{DELTA[1:]}', r'r"EVENT (0|[1-9]\d*) (0|-?[1-9]\d*)'),
            ("(data) if", '(data.decode(errors="replace")) if'),
        ),
    ),
    Mutant("event may be written in small letters", A_LINE, ((END, r'[0-9]*)\n", re.IGNORECASE)'),)),
    Mutant("several spaces count as one", A_LINE, ((SEQ, "EVENT +(0|[1-9][0-9]*) "),)),
    Mutant("a tab counts as a space", A_LINE, ((SEQ, r"EVENT (0|[1-9][0-9]*)[ \t]"),)),
    Mutant("a blank may stand at the end", A_LINE, ((END, r'[0-9]*) ?\n")'),)),
    Mutant("the end of a line is a $", A_LINE, ((END, '[0-9]*)$")'), ("_LINE.fullmatch(", "_LINE.match("))),
    Mutant("something may follow the LF", A_LINE, (("_LINE.fullmatch(", "_LINE.match("),)),
    Mutant("something may precede the line", A_LINE, ((SEQ, f".*{SEQ}"),)),
    Mutant(
        "CRLF is taken for LF",
        "no CRLF",
        (("_LINE.fullmatch(data)", r'_LINE.fullmatch(data.replace(b"\r\n", b"\n"))'),),
        seen="nodejs/llhttp#877",
    ),
    Mutant("a line needs no LF", "no last fragment without LF", ((END, r'[0-9]*)\n?")'),)),
    # the bounds
    Mutant(
        "65 bytes are a line",
        "a line is at most 64 bytes, its LF included",
        (("len(data) <= _LINE_BYTES", "len(data) <= _LINE_BYTES + 1"),),
    ),
    Mutant(
        "64 bytes are none",
        "a line is at most 64 bytes, its LF included",
        (("len(data) <= _LINE_BYTES", "len(data) < _LINE_BYTES"),),
    ),
    Mutant("delta may be 1001", "delta is at most 1000", (('"delta": (-1000, 1000)', '"delta": (-1000, 1001)'),)),
    Mutant("delta may not be -1000", "delta is at least -1000", (('"delta": (-1000, 1000)', '"delta": (-999, 1000)'),)),
    Mutant(
        "a line may say any delta",
        "a delta out of bounds is a BadLine",
        (("match is None or not low <= int(match[2]) <= high", "match is None"),),
    ),
    Mutant(
        "a long seq is a bad line",
        "seq has no bound but that of the line: a far one is a Gap",
        ((SEQ, "EVENT (0|[1-9][0-9]{0,17}) "),),
    ),
    # the types
    Mutant("a bytearray is a line", "a line is exact bytes", ((EXACT, "isinstance(data, bytes | bytearray) and"),)),
    Mutant("a subclass of bytes is a line", "a line is exact bytes", ((EXACT, "isinstance(data, bytes) and"),)),
    Mutant(
        "True passes for 1",
        "an int is no bool",
        (("type(value) is int and", "isinstance(value, int) and"),),
        seen="ethereum/py_ecc#30",
    ),
    Mutant(
        "a float passes for an int",
        "seq and delta are ints",
        (("return type(value) is int", "return type(value) in (int, float)"),),
    ),
    Mutant("a bad line is no ValueError", "BadLine is a ValueError", (("BadLine(ValueError)", "BadLine(Exception)"),)),
    Mutant(
        "a gap is a conflict, too",
        "each error is an Exception",
        (("class Gap(Exception)", "class Gap(Conflict)"),),
        equivalent="the contract does not say that none of these errors is a subclass of another",
    ),
    # replay
    Mutant(
        "who is too far behind gets the newest events",
        "what is no longer retained is a ResyncRequired",
        (
            (
                "    if not first <= cursor + 1 <= last + 1:",
                "    if cursor + 1 < first:\n        return list(log[-limit:])\n    if cursor > last:",
            ),
        ),
        seen="confluentinc/librdkafka#521",
    ),
    Mutant(
        "who is too far behind gets the oldest events",
        "what is no longer retained is a ResyncRequired",
        (
            ("if not first <= cursor + 1 <= last + 1:", "if cursor > last:"),
            ("start = cursor + 1 - first", "start = max(cursor + 1 - first, 0)"),
        ),
        seen="confluentinc/librdkafka#521",
    ),
    Mutant(
        "who is ahead of the log gets nothing",
        "a cursor beyond the log is a ResyncRequired",
        (("if not first <= cursor + 1 <= last + 1:", "if cursor + 1 < first:"),),
    ),
    Mutant("who has all must resync", "at the last event there is nothing more", (("<= last + 1:", "<= last:"),)),
    Mutant(
        "a cursor just before the log must resync",
        "the first event kept is next after it",
        (("not first <= cursor", "not first < cursor"),),
    ),
    Mutant(
        "a cursor at the first event must resync",
        "it is in the log",
        (("not first <= cursor + 1", "not first < cursor + 1 != first + 1"),),
    ),
    Mutant(
        "replay begins with the cursor's own event",
        "events after the cursor",
        (("start = cursor + 1 - first", "start = max(cursor - first, 0)"),),
    ),
    Mutant(
        "replay leaves out the next event",
        "events after the cursor",
        (("start = cursor + 1 - first", "start = cursor + 2 - first"),),
    ),
    Mutant("replay ignores its limit", "at most limit events", (("log[start : start + limit]", "log[start:]"),)),
    Mutant(
        "replay gives one too many",
        "at most limit events",
        (("log[start : start + limit]", "log[start : start + limit + 1]"),),
    ),
    Mutant(
        "replay gives the last of what follows",
        "the first events after the cursor",
        (("list(log[start : start + limit])", "list(log[start:])[-limit:]"),),
    ),
    Mutant(
        "replay gives the newest first",
        "events in their order",
        (("list(log[start : start + limit])", "list(log[start : start + limit])[::-1]"),),
    ),
    Mutant(
        "an empty log is up to date",
        "an empty log cannot say whether it was empty from the start: a ValueError",
        (("    first, last = _span(log)", "    if log == []:\n        return []\n    first, last = _span(log)"),),
    ),
    Mutant(
        "a log may have a gap",
        "a log is consecutive",
        (("!= list(range(first, first + len(log)))", "!= sorted({seq for seq, _ in log})"),),
    ),
    Mutant(
        "only the ends of a log are looked at",
        "a log is consecutive",
        (("[seq for seq, _ in log] != list(range(first, first + len(log)))", "log[-1][0] != first + len(log) - 1"),),
    ),
    Mutant(
        "the events of a log are not looked at", "a wrong value is a ValueError", (("        _event(*event)\n", ""),)
    ),
    Mutant("a log may hold 129 events", "a log is at most 128 events", (('"log": (1, 128)', '"log": (1, 129)'),)),
    Mutant("a limit may be 17", "limit is at most 16", (('"limit": (1, 16)', '"limit": (1, 17)'),)),
    Mutant("a limit may be 0", "limit is at least 1", (('"limit": (1, 16)', '"limit": (0, 16)'),)),
    Mutant("a cursor may be -2", "cursor is at least -1", (("_is_int(cursor, -1)", "_is_int(cursor, -2)"),)),
)
