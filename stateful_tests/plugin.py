"""The pytest plugin: the options of the gate, and all that has to be settled before anything is collected.

pytest loads it wherever Fencepost is installed. It has its say in a gate and in a run of the project's own tests
(``running``); any other pytest is none of its business.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from model import scratch
from model.contract import KINDS
from stateful_tests import options, results
from stateful_tests.doing import DOING, Writer
from stateful_tests.ending import Ending, reason_file
from stateful_tests.gate import Gate
from stateful_tests.options import ROOT
from stateful_tests.watch import watched

SETTINGS: Final = ROOT / "pyproject.toml"
SETTLED: Final = "fencepost"
SOAK_MINUTES: Final = 10.0
LOOKS: Final = ("collectonly", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""With one of these options pytest runs no test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Settle what would make every check fail alike, before any of them runs."""
    option = config.option
    if is_xdist_worker(config) or hasattr(option, "folder") or not _is_ours(config):
        return None
    if option.gate and option.help:
        sys.stdout.write(options.HELP)
        return 0
    if config.inipath != SETTINGS and not option.inifilename:
        # pytest took a path on the command line, such as that of --worker, for the place to look for its settings.
        command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), *config.invocation_params.args]
        os.execv(sys.executable, command)  # noqa: S606 - the same command, told where its settings are
    problem = options.settle(option, config.invocation_params.dir)
    if config.inipath != SETTINGS:
        problem = f"-c {option.inifilename}: the settings are {SETTINGS.name} of {ROOT}, and no others"
    if not option.gate or (not problem and any(getattr(option, name, None) for name in LOOKS)):
        return _refuse(problem) if problem else None
    try:
        results.prepare(option)
    except OSError as error:
        return _refuse(problem or f"--results: {option.results}: {error.strerror}", "verdict: unknown")
    if problem:
        results.write_unknown(option, problem)
        return _refuse(problem, "verdict: unknown")
    return watched(option, lambda: config.hook.pytest_cmdline_main(config=config))


def _refuse(problem: str, *more: str) -> int:
    sys.stderr.write("\n".join([f"fencepost: {problem}", *more, ""]))
    return 2


def _is_ours(config: pytest.Config) -> bool:
    """A gate, or a run of the project's own tests: any other pytest in this environment is none of our business."""
    option = config.option
    return option.gate or config.inipath == SETTINGS or any(getattr(option, name) is not None for name in KINDS)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if is_xdist_worker(config):
        if SETTLED not in config.workerinput:  # type: ignore[attr-defined]
            return
        vars(option).update(config.workerinput[SETTLED])  # type: ignore[attr-defined]
        if option.gate:
            config.pluginmanager.register(Ending(config), "fencepost-ending")
            _keep_steps(config, config.workerinput["workerid"])  # type: ignore[attr-defined]
    elif _is_ours(config):
        _prepare(config)
    else:
        return
    config.pluginmanager.import_plugin("stateful_tests.running")


def _prepare(config: pytest.Config) -> None:
    """The folder of the run, and those who watch over a gate."""
    option = config.option
    option.base = option.basetemp
    option.soak_s = 60 * (option.minutes or SOAK_MINUTES) if option.profile == "soak" else 0.0
    if option.basetemp is None:
        option.base = option.basetemp = scratch.make()
        config.add_cleanup(lambda: shutil.rmtree(option.base, ignore_errors=True))
    if hasattr(option, "folder"):
        config.pluginmanager.register(Gate(config), "fencepost-gate")
        reason_file(config).unlink(missing_ok=True)
        config.pluginmanager.register(Ending(config), "fencepost-ending")
        _keep_steps(config, "main")


def _keep_steps(config: pytest.Config, process: str) -> None:
    config.pluginmanager.register(Writer(Path(config.option.folder) / DOING, process), "fencepost-steps")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The tests of the harness wait for other processes half of their time; the checks of a gate do not."""
    return 2 * (os.cpu_count() or 1) if _is_ours(config) and not config.option.gate else None


def is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
