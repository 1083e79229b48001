"""How long a check may take, and what of it the next one sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stateful_tests.options import ROOT

CONFTEST = """
import faulthandler
from stateful_tests.ending import Ending

ARMED = []
faulthandler.dump_traceback_later = lambda *_, **__: ARMED.append(True)
faulthandler.cancel_dump_traceback_later = ARMED.clear

def pytest_configure(config):
    config.option.base, config.option.first = config.rootpath, False
    config.pluginmanager.register(Ending(config))
"""
CHECKS = """
import pytest
from conftest import ARMED

@pytest.mark.timeout(60)
def test_that_may_take_a_minute():
    assert ARMED

@pytest.mark.timeout(0)
def test_that_may_take_any_time():
    assert not ARMED
"""


def test_the_time_of_a_check_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_two.py").write_text(CHECKS)
    done = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
