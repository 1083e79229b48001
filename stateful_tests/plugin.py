"""The pytest plugin: ``--gate``, ``--worker``, ``--client``, ``--seed``, profiles, and the verdict at the end.

pytest is the only runner: xdist spreads the checks, JUnit reports them. A check is a test that carries the mark
``layer``; under ``--gate`` only these run. Whatever random choice a check makes, it makes from the fixture ``seed``.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from model import scratch
from model.contract import KINDS
from model.counterexample import Violation
from stateful_tests import options, results
from stateful_tests.checks import comes_first, is_first, kind_of, layer_of, sample
from stateful_tests.doing import DOING, Writer
from stateful_tests.ending import UNRULY, Ending, Unruly, reason_file
from stateful_tests.gate import Gate
from stateful_tests.lockstep import Transcript
from stateful_tests.options import PROFILES, ROOT
from stateful_tests.position import Position
from stateful_tests.verdict import LAYERS
from stateful_tests.watch import watched

pytest_plugins = ["stateful_tests.fixtures", "stateful_tests.browser"]

SETTINGS: Final = ROOT / "pyproject.toml"
SOAK_MINUTES: Final = 10.0
CONTRACT_S: Final = 40
"""How long a check of the contract may take: many times what the longest does, and so few that a hang is soon plain."""
SETTLED: Final = "fencepost"
LOOKS: Final = ("collectonly", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""With one of these options pytest runs no test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Settle what would make every check fail alike, before any of them runs."""
    if is_xdist_worker(config) or hasattr(config.option, "folder"):
        return None
    if config.inipath != SETTINGS:
        # pytest took a path on the command line, such as that of --worker, for the place to look for its settings.
        command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), *config.invocation_params.args]
        os.execv(sys.executable, command)  # noqa: S606 - the same command, told where its settings are
    option = config.option
    if option.gate and option.help:
        sys.stdout.write(options.HELP)
        return 0
    if not (problem := options.settle(option, config.invocation_params.dir)):
        if not option.gate or any(getattr(option, name, None) for name in LOOKS):
            return None
        return watched(option, lambda: config.hook.pytest_cmdline_main(config=config))
    sys.stderr.write(f"fencepost: {problem}\n")
    if option.gate:
        results.prepare(option)
        results.write_unknown(option, problem)
        sys.stderr.write("verdict: unknown\n")
    return 2


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "layer(name): a check of this layer of the gate")
    config.addinivalue_line("markers", "first: a check that nothing may run before or beside")
    option = config.option
    if is_xdist_worker(config):
        vars(option).update(config.workerinput[SETTLED])  # type: ignore[attr-defined]
        if option.gate:
            config.pluginmanager.register(Ending(config), "fencepost-ending")
            _keep_steps(config, config.workerinput["workerid"])  # type: ignore[attr-defined]
        return
    option.base = option.basetemp
    option.soak_until = time.time() + 60 * (option.minutes or SOAK_MINUTES) if option.profile == "soak" else 0.0
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
    return None if config.option.gate else 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - xdist's, without types
    """Hand the settled options to a process of xdist, which parses the command line anew."""
    option = node.config.option
    names = (*KINDS, "judged", "seed", "profile", "first", "again", "soak_until", "examples", "regressions")
    settled = {name: getattr(option, name) for name in names}
    node.workerinput[SETTLED] = {**settled, "base": str(option.base), "folder": str(getattr(option, "folder", ""))}


def is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A gate does not read test files that have no check: to collect them costs more than a few of its checks."""
    if config.option.gate and collection_path.suffix == ".py" and b"layer(" not in collection_path.read_bytes():
        return True
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shard" in metafunc.fixturenames:
        metafunc.parametrize("shard", range(PROFILES[metafunc.config.option.profile].shards))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if layer := layer_of(item):
            item.user_properties.append(("layer", layer))
            item.user_properties.append(("kind", kind_of(item)))
        if config.option.soak_until and {"soak", "states_done"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(0))
        elif layer == "contract" and config.option.gate and config.option.timeout is None and not is_first(item):
            item.add_marker(pytest.mark.timeout(CONTRACT_S))
    if config.option.gate:
        checks = [item for item in items if layer_of(item) and kind_of(item) in config.option.judged]
        checks = sample(checks, config.option)
        chosen = set(checks)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = sorted(checks, key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool, int]:
    return not is_first(item), not comes_first(item), LAYERS.index(layer_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A violation is reported as its own text, and as data beside it."""
    report = yield
    report.user_properties = [(name, _plain(value)) for name, value in report.user_properties]
    violation = find_violation(call.excinfo.value) if call.excinfo else None
    if violation is not None:
        report.longrepr = str(violation)
        data = {name: getattr(violation, name) for name in ("difference", "program", "steps", "origin", "story")}
        report.user_properties.append(("violation", data))
        item.user_properties.append((results.OUTCOME, "violation"))
        if isinstance(violation, Unruly):
            report.user_properties.append((UNRULY, True))
    elif report.failed and (writer := item.config.pluginmanager.get_plugin("fencepost-steps")):
        report.user_properties.append(("doing", writer.now()))
    return report


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a check notes down
    """What xdist can send and JUnit can print."""
    if isinstance(value, Counter):
        return dict(value)
    return str(value) if isinstance(value, Transcript | Position) else value


def find_violation(error: BaseException) -> Violation | None:
    """The violation itself, or the first one in a group: what was seen once was seen."""
    if isinstance(error, Violation):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_violation, error.exceptions)), None)
    return None
