"""One examiner judges many files, each in a copy of its own, and none of them touches the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stateful_tests.examiner import Examiner, Order
from stateful_tests.options import ROOT
from stateful_tests.test_watch import alive

EARLY = "stateful_tests/test_contract_finish.py::test_finish_is_refused[a lease is over at lease_until itself]"


@pytest.fixture(scope="module")
def examiner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examiner]:
    one = Examiner("worker", "ci", 1, tmp_path_factory.mktemp("results"))
    yield one
    one.end()


@pytest.fixture
def wrong(tmp_path: Path) -> Order:
    """One sign is wrong, and the check that sees it comes first."""
    sign = ":now_ms < lease_until"
    text = (ROOT / "worker.py").read_text()
    assert text.count(sign)
    file = tmp_path / "wrong.py"
    file.write_text(text.replace(sign, ":now_ms <= lease_until"))
    return Order(str(file), (EARLY,), full=False)


def test_the_known_check_comes_first_and_ends_it(examiner: Examiner, wrong: Order) -> None:
    for _ in range(2):
        verdict = examiner.judge(wrong)
        assert verdict
        assert [failure["nodeid"] for failure in verdict["failures"]] == [EARLY]
        assert verdict["judged"]["worker"]["path"] == wrong.path
        assert sum(layer["checks"] for layer in verdict["layers"]) == 1


def test_a_file_that_ends_its_process_has_no_verdict(examiner: Examiner, wrong: Order, tmp_path: Path) -> None:
    file = tmp_path / "exits.py"
    file.write_text("import os\n\nos._exit(0)\n")
    assert examiner.judge(Order(str(file), (EARLY,), full=False)) is None
    assert examiner.judge(wrong)


def test_an_interrupted_examiner_leaves_no_process(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    file = tmp_path / "hangs.py"
    file.write_text(f"open({str(begun)!r}, 'w').close()\nwhile True: pass\n")
    one = Examiner("worker", "quick", 1, tmp_path)
    judging = threading.Thread(target=one.judge, args=(Order(str(file), (), full=False),))
    judging.start()
    begun.open().close()
    family = psutil.Process(one.process.pid).children(recursive=True)
    assert family
    one.end()
    judging.join()
    assert one.process.returncode is not None
    assert alive(family, 0) == []
