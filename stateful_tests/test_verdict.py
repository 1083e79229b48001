"""What the checks add up to."""

from __future__ import annotations

import pytest

from stateful_tests.verdict import LAYERS, Check, Word, judge, table


def check(layer: str, word: Word = "valid", name: str = "test_it") -> Check:
    return Check(f"{layer}.py::{name}", layer, word, 1.5, {"operations": 1000}, why="" if word == "valid" else "why")


ALL = [check(layer) for layer in LAYERS]


def test_valid_needs_every_layer() -> None:
    assert judge(ALL).word == "valid"
    for missing in ALL:
        verdict = judge([other for other in ALL if other is not missing])
        assert verdict.word == "unknown"
        assert verdict.unanswered == [f"{missing.layer}: no check of this layer ran"]


def test_one_violation_decides() -> None:
    verdict = judge([*ALL, check("stateful", "invalid", "test_b"), check("contract", "unknown", "test_c")])
    assert (verdict.word, verdict.exit_status) == ("invalid", 1)
    assert [failure.nodeid for failure in verdict.failures] == ["stateful.py::test_b"]


@pytest.mark.parametrize(
    ("checks", "missing", "reasons"),
    [
        ([*ALL, check("contract", "unknown", "test_b")], [], []),
        (ALL, ["contract.py::test_b"], []),
        (ALL, [], ["interrupted"]),
        ([], [], []),
    ],
)
def test_whatever_stays_open_is_unknown(checks: list[Check], missing: list[str], reasons: list[str]) -> None:
    verdict = judge(checks, missing, reasons)
    assert (verdict.word, verdict.exit_status) == ("unknown", 2)
    assert verdict.unanswered


def test_a_layer_is_as_bad_as_its_worst_check() -> None:
    layers = {layer.name: layer for layer in judge([*ALL, check("contract", "unknown", "b")]).layers}
    assert layers["contract"].word == "unknown"
    assert layers["stateful"].word == "valid"
    assert (layers["contract"].checks, layers["contract"].did, layers["contract"].seconds) == (
        2,
        {"operations": 2000},
        3.0,
    )


def test_the_table_is_aligned() -> None:
    lines = table(judge(ALL).layers)
    assert lines[0].split() == ["layer", "checks", "did", "result", "seconds"]
    assert lines[1] == "contract        1  1,000 operations  valid       1.5"
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("nodeid", "title"),
    [
        ("a.py::test_a_lease_ends", "a lease ends"),
        ("a.py::test_claim[a lease is over at lease_until]", "claim [a lease is over at lease_until]"),
    ],
)
def test_a_check_is_a_sentence(nodeid: str, title: str) -> None:
    assert Check(nodeid, "contract", "valid", 0).title == title


def test_the_same_programs_have_one_digest() -> None:
    def digest(*transcripts: str) -> str:
        checks = [Check(f"a.py::test[{text}]", "stateful", "valid", 0, transcript=text) for text in transcripts]
        return judge(checks).transcript

    assert digest("x", "y") == digest("y", "x") != digest("x", "z")
