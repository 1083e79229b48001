"""Wrong workers: what run_once makes of a send."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_ACK: Final = "only a return that is True is ok; anything else is a BadAck"
_CLASSES: Final = "Retryable is a retry, Permanent is permanent"
_OTHER: Final = "any other error reaches the caller, and the job stays leased"
_EVENT: Final = "send gets a new dict of exactly id and qty"

SEND: Final = (
    # --- the send
    Mutant(
        "send gets the ticket",
        _EVENT,
        (('ack = send({"id": ticket["id"], "qty": ticket["qty"]})', "ack = send(ticket)"),),
    ),
    Mutant(
        "send gets the attempt too",
        _EVENT,
        (('"qty": ticket["qty"]})\n    except', '"qty": ticket["qty"], "attempt": ticket["attempt"]})\n    except'),),
    ),
    Mutant(
        "send gets the same dict each time",
        _EVENT,
        (
            (
                'ack = send({"id": ticket["id"], "qty": ticket["qty"]})',
                (
                    'event = globals().setdefault("_EVENT", {})\n'
                    '        event.update(id=ticket["id"], qty=ticket["qty"])\n'
                    "        ack = send(event)"
                ),
            ),
        ),
    ),
    Mutant(
        "send's dict is read for the finish",
        "what send does to its dict does not change the ticket",
        (
            (
                '        ack = send({"id": ticket["id"], "qty": ticket["qty"]})\n',
                (
                    '        event = {"id": ticket["id"], "qty": ticket["qty"]}\n'
                    "        ack = send(event)\n"
                    "        ticket.update(event)\n"
                ),
            ),
        ),
    ),
    Mutant(
        "a job is sent twice",
        "send is called once",
        (
            (
                '        ack = send({"id"',
                '        send({"id": ticket["id"], "qty": ticket["qty"]})\n        ack = send({"id"',
            ),
        ),
    ),
    Mutant(
        "a job that could be retried is sent again at once",
        "send is called once",
        (
            (
                '    except Retryable:\n        return "retry"\n',
                (
                    "    except Retryable:\n"
                    "        try:\n"
                    '            ack = send({"id": ticket["id"], "qty": ticket["qty"]})\n'
                    "        except Retryable:\n"
                    '            return "retry"\n'
                ),
            ),
        ),
    ),
    Mutant("a truthy answer is an ack", _ACK, (("    if ack is not True:\n", "    if not ack:\n"),)),
    Mutant(
        "1 is an ack",
        _ACK,
        (("    if ack is not True:\n", "    if ack != True:  # noqa: E712\n"),),
        seen="ethereum/py_ecc#30",
    ),
    Mutant(
        "no answer is an ack", _ACK, (("    if ack is not True:\n", "    if ack is not True and ack is not None:\n"),)
    ),
    Mutant("a bad answer is a retry", _ACK, (("        raise BadAck(f", '        return "retry" or (f'),)),
    Mutant(
        "a permanent failure is retried",
        _CLASSES,
        (('        return "permanent"\n    if ack', '        return "retry"\n    if ack'),),
    ),
    Mutant(
        "a retryable failure is permanent",
        _CLASSES,
        (('    except Retryable:\n        return "retry"\n', '    except Retryable:\n        return "permanent"\n'),),
    ),
    Mutant(
        "a subclass of Retryable is another error",
        "subclasses of Retryable and Permanent are classified too",
        (
            (
                '    except Retryable:\n        return "retry"\n',
                (
                    "    except Retryable as error:\n"
                    "        if type(error) is not Retryable:\n"
                    "            raise\n"
                    '        return "retry"\n'
                ),
            ),
        ),
    ),
    Mutant(
        "a subclass of Permanent is another error",
        "subclasses of Retryable and Permanent are classified too",
        (
            (
                "    except Permanent:\n",
                "    except Permanent as error:\n        if type(error) is not Permanent:\n            raise\n",
            ),
        ),
    ),
    Mutant(
        "every error is a retry",
        _OTHER,
        (("    except Retryable:\n", "    except (Retryable, OSError, RuntimeError, ValueError, BadAck):\n"),),
    ),
    Mutant("a timeout is a retry", _OTHER, (("    except Retryable:\n", "    except (Retryable, TimeoutError):\n"),)),
    Mutant(
        "a BadAck that send raises is a retry",
        _OTHER,
        (("    except Retryable:\n", "    except (Retryable, BadAck):\n"),),
    ),
    Mutant(
        "an interrupt is a retry",
        _OTHER,
        (("    except Retryable:\n", "    except (Retryable, KeyboardInterrupt, SystemExit, GeneratorExit):\n"),),
    ),
    Mutant(
        "an error of send's is wrapped",
        _OTHER,
        (
            (
                '    except Permanent:\n        return "permanent"\n',
                (
                    "    except Permanent:\n"
                    '        return "permanent"\n'
                    "    except Exception as error:\n"
                    '        raise RuntimeError("send failed") from error\n'
                ),
            ),
        ),
    ),
    Mutant(
        "an error of send's frees the job",
        _OTHER,
        (
            (
                "    outcome = _deliver(send, ticket)\n",
                (
                    "    try:\n"
                    "        outcome = _deliver(send, ticket)\n"
                    "    except Exception:\n"
                    '        finish(con, ticket, "retry", first_ms)\n'
                    "        raise\n"
                ),
            ),
        ),
    ),
    Mutant(
        "the clock is read again after a bad answer",
        "after a BadAck the clock is not read again",
        (
            (
                '    outcome = _deliver(send, ticket)\n    second_ms = _exact_int("now_ms", clock())\n',
                (
                    "    try:\n"
                    "        outcome = _deliver(send, ticket)\n"
                    "    finally:\n"
                    "        second = clock()\n"
                    '    second_ms = _exact_int("now_ms", second)\n'
                ),
            ),
        ),
    ),
)
