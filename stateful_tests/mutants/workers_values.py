"""Wrong workers: the forms and ranges of values, and the delay of a retry."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant

_RANGE: Final = "a number out of its range is a ValueError, and one at its end is none"
_IDENTIFIER: Final = "an identifier is 1 to 64 ASCII letters, digits, '_' or '-'"
_RATIO: Final = "jitter is an int or a float from 0 to 1, not a bool"
_DELAY: Final = "the delay is the cap first, then the ratio, then the floor"

VALUES: Final = (
    # --- bounds
    Mutant("a quantity of nothing is taken", _RANGE, (('"qty": (1, 1000)', '"qty": (0, 1000)'),)),
    Mutant("a quantity of 1001 is taken", _RANGE, (('"qty": (1, 1000)', '"qty": (1, 1001)'),)),
    Mutant("a job with no time is taken", _RANGE, (('"ttl_ms": (1, ', '"ttl_ms": (0, '),)),
    Mutant("a job with no attempt is taken", _RANGE, (('"max_attempts": (1, 16)', '"max_attempts": (0, 16)'),)),
    Mutant("a lease of no time is taken", _RANGE, (('"lease_ms": (1, ', '"lease_ms": (0, '),)),
    Mutant("a negative delay is taken", _RANGE, (('"delay_ms": (0, ', '"delay_ms": (-1, '),)),
    Mutant("a retry without delay is refused", _RANGE, (('"delay_ms": (0, ', '"delay_ms": (1, '),)),
    Mutant("the time zero is refused", _RANGE, (('"now_ms": (0, ', '"now_ms": (1, '),)),
    Mutant("a time without room for a minute is taken", _RANGE, (("10**15 - 60_000)", "10**15)"),)),
    Mutant("a ticket with the token 0 is taken", _RANGE, (('"token": (1, ', '"token": (0, '),)),
    Mutant("a ticket of no attempt is taken", _RANGE, (('"attempt": (1, 16)', '"attempt": (0, 16)'),)),
    Mutant("a ticket with the lease end 0 is taken", _RANGE, (('"lease_until": (1, ', '"lease_until": (0, '),)),
    Mutant(
        "a lease may end beyond the last time",
        _RANGE,
        (('"lease_until": (1, 10**15)', '"lease_until": (1, 2 * 10**15)'),),
    ),
    Mutant("a base of no time is taken", _RANGE, (('"base_ms": (1, ', '"base_ms": (0, '),)),
    Mutant("a cap may last a minute and a bit", _RANGE, (('"cap_ms": (1, 60_000)', '"cap_ms": (1, 60_001)'),)),
    # --- exact ints
    Mutant(
        "a bool is taken for an int",
        "an exact int is no bool",
        (("if type(value) is int and low", "if isinstance(value, int) and low"),),
        seen="ethereum/py_ecc#30",
    ),
    Mutant(
        "a subclass of int is taken for an int",
        "an exact int is of no subclass",
        (("if type(value) is int and low", "if isinstance(value, int) and not isinstance(value, bool) and low"),),
    ),
    Mutant(
        "a whole float is taken for an int",
        "an exact int is no float",
        (
            ("if type(value) is int and low", "if type(value) in (int, float) and value == int(value) and low"),
            ("and low <= value <= high:\n        return value", "and low <= value <= high:\n        return int(value)"),
        ),
    ),
    Mutant("the least of a range is refused", _RANGE, (("low <= value <= high", "low < value <= high"),)),
    Mutant("the most of a range is refused", _RANGE, (("low <= value <= high", "low <= value < high"),)),
    Mutant(
        "a wrong value is a TypeError",
        "a value of the wrong form is a ValueError",
        (('raise ValueError(f"{name} must be an int from', 'raise TypeError(f"{name} must be an int from'),),
    ),
    Mutant(
        "a number beyond its range is cut to it",
        _RANGE,
        (("low <= value <= high:\n        return value", "low <= value:\n        return min(value, high)"),),
    ),
    # --- identifiers
    Mutant("an identifier has other alphabets' letters", _IDENTIFIER, (('r"[A-Za-z0-9_-]{1,64}"', 'r"[\\w-]{1,64}"'),)),
    Mutant(
        "an identifier has other alphabets' digits",
        _IDENTIFIER,
        (('r"[A-Za-z0-9_-]{1,64}"', 'r"[A-Za-z\\d_-]{1,64}"'),),
    ),
    Mutant(
        "an identifier has a long s and a Kelvin sign",
        _IDENTIFIER,
        (('r"[A-Za-z0-9_-]{1,64}"', 'r"[a-z0-9_-]{1,64}", re.IGNORECASE'),),
    ),
    Mutant(
        "an identifier ends in a newline",
        _IDENTIFIER,
        (('_-]{1,64}"', '_-]{1,64}$"'), ("_IDENTIFIER.fullmatch(value)", "_IDENTIFIER.match(value)")),
    ),
    Mutant(
        "an identifier begins well and goes on badly", _IDENTIFIER, (("_IDENTIFIER.fullmatch(", "_IDENTIFIER.match("),)
    ),
    Mutant("an identifier has 65 characters", _IDENTIFIER, (("_-]{1,64}", "_-]{1,65}"),)),
    Mutant("an identifier of 64 characters is refused", _IDENTIFIER, (("_-]{1,64}", "_-]{1,63}"),)),
    Mutant("an identifier may be empty", _IDENTIFIER, (("_-]{1,64}", "_-]{0,64}"),)),
    Mutant("an identifier has no underscore", _IDENTIFIER, (("0-9_-]", "0-9-]"),)),
    Mutant("an identifier has what stands between Z and a", _IDENTIFIER, (("[A-Za-z0-9_-]", "[A-z0-9_-]"),)),
    Mutant(
        "a subclass of str is an identifier",
        "an identifier is exactly a str",
        (("if type(value) is str and _IDENTIFIER", "if isinstance(value, str) and _IDENTIFIER"),),
    ),
    Mutant(
        "an identifier is stripped",
        _IDENTIFIER,
        (
            (
                "type(value) is str and _IDENTIFIER.fullmatch(value):\n        return value",
                "type(value) is str and _IDENTIFIER.fullmatch(value.strip()):\n        return value.strip()",
            ),
        ),
    ),
    # --- dicts
    Mutant(
        "a subclass of dict is a ticket",
        "a dict is exactly a dict",
        (("if type(value) is dict and", "if isinstance(value, dict) and"),),
    ),
    Mutant(
        "a dict may have further keys",
        "a dict has exactly the named keys",
        (("value.keys() == set(keys)", "value.keys() >= set(keys)"),),
    ),
    Mutant(
        "a missing key is a KeyError",
        "a value of the wrong form is a ValueError",
        (("value.keys() == set(keys)", "value.keys() <= set(keys)"),),
    ),
    Mutant(
        "a ticket's id may be anything",
        "a ticket's id is an identifier",
        (('for name in ("id", "owner"):', 'for name in ("owner",):'),),
    ),
    Mutant(
        "a ticket's quantity may be anything",
        "a ticket's qty is an exact int from 1 to 1000",
        (
            (
                'for name in ("qty", "token", "attempt", "lease_until"):',
                'for name in ("token", "attempt", "lease_until"):',
            ),
        ),
    ),
    Mutant(
        "a ticket's lease end may be anything",
        "a ticket's lease_until is an exact int from 1 to 10**15",
        (('for name in ("qty", "token", "attempt", "lease_until"):', 'for name in ("qty", "token", "attempt"):'),),
    ),
    # --- jitter
    Mutant(
        "a jitter beyond any float is an OverflowError",
        _RATIO,
        (("and 0 <= value <= 1:", "and 0 <= float(value) <= 1:"),),
    ),
    Mutant("jitter may be NaN", _RATIO, (("and 0 <= value <= 1:", "and not (value < 0 or value > 1):"),)),
    Mutant(
        "jitter may be a bool",
        _RATIO,
        (("(type(value) is int or type(value) is float)", "isinstance(value, (int, float))"),),
        seen="ethereum/py_ecc#30",
    ),
    Mutant("jitter may be of a subclass of float", _RATIO, (("type(value) is float)", "isinstance(value, float))"),)),
    Mutant(
        "jitter may not be an int", _RATIO, (("(type(value) is int or type(value) is float)", "type(value) is float"),)
    ),
    Mutant("jitter may not be 1", _RATIO, (("and 0 <= value <= 1:", "and 0 <= value < 1:"),)),
    Mutant("jitter may be a hair above 1", _RATIO, (("and 0 <= value <= 1:", "and 0 <= value < 1.000001:"),)),
    Mutant("jitter may be below 0", _RATIO, (("and 0 <= value <= 1:", "and value <= 1:"),)),
    # --- retry_delay
    Mutant(
        "the ratio is applied before the cap",
        _DELAY,
        (
            (
                "math.floor(min(cap_ms, base_ms << (attempt - 1)) * _ratio(jitter))",
                "math.floor(min(cap_ms, (base_ms << (attempt - 1)) * _ratio(jitter)))",
            ),
        ),
        seen="openai/openai-agents-python#2676",
    ),
    Mutant("the delay is rounded", _DELAY, (("return math.floor(min(", "return round(min("),)),
    Mutant("the delay is a float", "the delay is an int", (("return math.floor(min(", "return float(min("),)),
    Mutant(
        "the delay is not capped", _DELAY, (("min(cap_ms, base_ms << (attempt - 1))", "(base_ms << (attempt - 1))"),)
    ),
    Mutant(
        "the delay doubles from the first attempt on",
        "the first delay is base_ms",
        (("base_ms << (attempt - 1)", "base_ms << attempt"),),
    ),
    Mutant(
        "the delay grows no more after ten attempts",
        "the delay doubles with each attempt",
        (("base_ms << (attempt - 1)", "base_ms << min(attempt - 1, 9)"),),
    ),
    Mutant(
        "the doubling overflows 16 bits",
        "the delay doubles with each attempt, up to the cap",
        (("base_ms << (attempt - 1)", "(base_ms << (attempt - 1)) & 0xFFFF"),),
        seen="openai/openai-agents-python#2676",
    ),
    Mutant(
        "the delay is drawn",
        "there is no randomness",
        (("* _ratio(jitter))", "* __import__('random').uniform(0, _ratio(jitter)))"),),
    ),
    Mutant(
        "the ratio is added to the delay",
        _DELAY,
        (("* _ratio(jitter))", "* (1 + _ratio(jitter)))"),),
        seen="openai/openai-agents-python#2676",
    ),
    Mutant(
        "a cap below the base is taken",
        "cap_ms is at least base_ms",
        (("    if cap_ms < base_ms:\n", "    if cap_ms < 1:\n"),),
    ),
    Mutant(
        "a cap equal to the base is refused",
        "cap_ms is at least base_ms",
        (("if cap_ms < base_ms:", "if cap_ms <= base_ms:"),),
    ),
    Mutant(
        "the attempt of a delay is not judged",
        "attempt is an exact int from 1 to 16",
        (('    attempt = _exact_int("attempt", attempt)\n', ""),),
    ),
    Mutant(
        "the cap of a delay is not judged",
        "cap_ms is an exact int up to 60000",
        (('    cap_ms = _exact_int("cap_ms", cap_ms)\n', ""),),
    ),
    Mutant("the ratio of a delay is not judged", _RATIO, (("* _ratio(jitter))", "* jitter)"),)),
)
