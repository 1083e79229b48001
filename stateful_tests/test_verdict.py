"""What the checks add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from stateful_tests.verdict import LAYERS, OPTIONAL, WHOLE, Check, Verdict, Word, judge, table


def check(layer: str, word: Word = "valid", name: str = "test_it") -> Check:
    covered = {"claim": (3, 3)} if layer in WHOLE else {}
    why = "" if word == "valid" else "why"
    return Check(f"{layer}.py::{name}", "worker", layer, word, 1.5, {"operations": 1000}, covered, why=why)


def verdict_on(checks: Iterable[Check], missing: Sequence[str] = (), reasons: Sequence[str] = ()) -> Verdict:
    return judge(checks, ["worker"], missing, reasons)


ALL = [check(layer) for layer in LAYERS]


def test_valid_needs_every_layer() -> None:
    assert verdict_on(ALL).word == "valid"
    for missing in ALL:
        verdict = verdict_on([other for other in ALL if other is not missing])
        assert verdict.word == "unknown"
        assert verdict.unanswered == [f"worker: {missing.layer}: no check of this layer ran"]


def test_each_module_needs_every_layer() -> None:
    of_client = [replace(check, kind="client") for check in ALL]
    assert judge([*ALL, *of_client], ["worker", "client"]).word == "valid"
    verdict = judge([*ALL, *of_client[1:]], ["worker", "client"])
    assert (verdict.word, verdict.unanswered) == ("unknown", ["client: contract: no check of this layer ran"])


def test_one_violation_decides() -> None:
    verdict = verdict_on([*ALL, check("stateful", "invalid", "test_b"), check("contract", "unknown", "test_c")])
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
    verdict = verdict_on(checks, missing, reasons)
    assert (verdict.word, verdict.exit_status) == ("unknown", 2)
    assert verdict.unanswered


def skipped(layer: str, why: str = "no strace on the PATH") -> Check:
    return Check(f"{layer}.py::test_skipped_{why}", "worker", layer, "unknown", 0.0, why=why, skipped=True)


LACKING = [skipped(check.layer) if check.layer in OPTIONAL else check for check in ALL]


def test_an_optional_layer_may_be_skipped() -> None:
    verdict = verdict_on([*LACKING, *(skipped(name) for name in OPTIONAL)])
    assert (verdict.word, verdict.unanswered) == ("valid", [])
    assert (
        verdict.not_tried
        == verdict.as_json()["not_tried"]
        == [f"worker: {name}: no strace on the PATH" for name in OPTIONAL]
    )
    assert [layer.word for layer in verdict.layers if layer.name in OPTIONAL] == ["not tried"] * len(OPTIONAL)
    assert verdict_on(ALL).not_tried == []


def test_every_other_outcome_of_an_optional_layer_counts() -> None:
    for name in OPTIONAL:
        assert verdict_on([*LACKING, check(name, "unknown", "test_b")]).word == "unknown"
        assert verdict_on([*LACKING, check(name, "invalid", "test_b")]).word == "invalid"
        assert verdict_on([other for other in ALL if other.layer != name]).unanswered == [
            f"worker: {name}: no check of this layer ran"
        ]


def test_a_skip_in_any_other_layer_is_unknown() -> None:
    for name in set(LAYERS) - set(OPTIONAL):
        verdict = verdict_on([*ALL, skipped(name)])
        assert (verdict.word, verdict.not_tried) == ("unknown", [])
        assert verdict.unanswered[0].endswith(": no strace on the PATH")


def test_a_layer_is_as_bad_as_its_worst_check() -> None:
    layers = {layer.name: layer for layer in verdict_on([*ALL, check("contract", "unknown", "b")]).layers}
    assert layers["contract"].word == "unknown"
    assert layers["stateful"].word == "valid"
    assert (layers["contract"].checks, layers["contract"].did, layers["contract"].seconds) == (
        2,
        {"operations": 2000},
        3.0,
    )


def shards(*covered: dict[str, tuple[int, int]], word: Word = "valid") -> Verdict:
    """The verdict where the layer "transitions" consists of these checks, the first of them with this word."""
    parts = [
        Check(f"t.py::t[{n}]", "worker", "transitions", "valid" if n else word, 1, covered=each)
        for n, each in enumerate(covered)
    ]
    return verdict_on([*(other for other in ALL if other.layer != "transitions"), *parts])


def test_shards_add_up_to_the_whole() -> None:
    verdict = shards({"claim": (2, 5), "finish": (4, 4)}, {"claim": (3, 5), "finish": (0, 4)})
    assert (verdict.word, verdict.unanswered) == ("valid", [])
    (layer,) = (layer for layer in verdict.layers if layer.name == "transitions")
    assert layer.covered == {"claim": (5, 5), "finish": (4, 4)}
    assert "9 of 9 transitions" in "\n".join(table(verdict.layers))


@pytest.mark.parametrize(
    ("covered", "says"),
    [
        ([{"claim": (4000, 9120)}, {"claim": (5000, 9120)}], "claim 9,000 of 9,120 replayed"),
        ([{"claim": (5, 5)}, {"claim": (1, 5)}], "claim 6 of 5 replayed"),
        ([{"claim": (5, 5)}, {"finish": (0, 1)}], "finish 0 of 1 replayed"),
        ([{"claim": (2, 4)}, {"claim": (2, 5)}], "claim 4 of 5 replayed"),
        ([{}, {}], "no check says how much there is to cover"),
    ],
)
def test_less_than_the_whole_is_unknown(covered: list[dict[str, tuple[int, int]]], says: str) -> None:
    verdict = shards(*covered)
    assert (verdict.word, verdict.unanswered) == ("unknown", [f"worker: transitions: {says}"])
    assert {layer.name: layer.word for layer in verdict.layers}["transitions"] == "unknown"


def test_a_violation_needs_no_whole() -> None:
    verdict = shards({"claim": (1, 5)}, word="invalid")
    assert (verdict.word, verdict.unanswered) == ("invalid", [])


def test_the_table_is_aligned() -> None:
    lines = table(verdict_on(ALL).layers)
    assert lines[0].split() == ["judged", "layer", "checks", "did", "result", "seconds"]
    assert lines[1].split() == ["worker", "contract", "1", "1,000", "operations", "valid", "1.5"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("nodeid", "title"),
    [
        ("a.py::test_a_lease_ends", "a lease ends"),
        ("a.py::test_claim[a lease is over at lease_until]", "claim [a lease is over at lease_until]"),
    ],
)
def test_a_check_is_a_sentence(nodeid: str, title: str) -> None:
    assert Check(nodeid, "worker", "contract", "valid", 0).title == title


def test_the_same_programs_have_one_digest() -> None:
    def digest(*transcripts: str) -> str:
        checks = [
            Check(f"a.py::test[{text}]", "worker", "stateful", "valid", 0, transcript=text) for text in transcripts
        ]
        return verdict_on(checks).transcript

    assert digest("x", "y") == digest("y", "x") != digest("x", "z")
