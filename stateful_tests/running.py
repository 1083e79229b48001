"""What pytest does otherwise in a gate and in a run of the project's own tests.

pytest is the only runner: xdist spreads the checks, JUnit reports them. A check is a test that carries the mark
``layer``; under ``--gate`` only these run. Whatever random choice a check makes, it makes from the fixture ``seed``.
"""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from model.contract import KINDS
from model.counterexample import Violation
from stateful_tests import results
from stateful_tests.checks import comes_first, is_first, kind_of, layer_of, sample
from stateful_tests.ending import UNRULY, Unruly
from stateful_tests.lockstep import Transcript
from stateful_tests.options import PROFILES
from stateful_tests.plugin import SETTLED
from stateful_tests.position import Position
from stateful_tests.verdict import LAYERS

pytest_plugins = ["stateful_tests.fixtures", "stateful_tests.browser"]

NO_ROOM: Final = 2**22
"""Bytes: with fewer left, files are likely to fail."""
CONTRACT_S: Final = 40
"""How long a check of the contract may take: many times what the longest does, and so few that a hang is soon plain."""


STOPPED: Final[list[int]] = []
"""Not empty where this process was stopped during the present check, as by Ctrl-Z, and goes on."""


def pytest_configure(config: pytest.Config) -> None:
    signal.signal(signal.SIGCONT, lambda number, _: STOPPED.append(number))
    config.addinivalue_line("markers", "layer(name): a check of this layer of the gate")
    config.addinivalue_line("markers", "first: a check that nothing may run before or beside")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - xdist's, without types
    """Hand the settled options to a process of xdist, which parses the command line anew."""
    option = node.config.option
    names = (*KINDS, "judged", "seed", "profile", "first", "again", "soak_s", "examples", "regressions")
    settled = {name: getattr(option, name) for name in names}
    node.workerinput[SETTLED] = {**settled, "base": str(option.base), "folder": str(getattr(option, "folder", ""))}


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
            if not kind_of(item):
                raise pytest.UsageError(f"{item.nodeid}: a check of the layer {layer} that asks for no module")
            for kind in ("DeprecationWarning", "PendingDeprecationWarning", "SyntaxWarning"):
                # Of Python's, about the judged module's own style.
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
            item.user_properties.append(("layer", layer))
            item.user_properties.append(("kind", kind_of(item)))
        if config.option.soak_s and {"soak", "states_done"} & _fixtures(item):
            item.add_marker(pytest.mark.timeout(0))
        elif layer == "contract" and config.option.gate and not is_first(item) and _has_no_limit(item):
            item.add_marker(pytest.mark.timeout(CONTRACT_S))
    if config.option.gate:
        checks = [item for item in items if layer_of(item) and kind_of(item) in config.option.judged]
        checks = sample(checks, config.option)
        chosen = set(checks)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = sorted(checks, key=_place)
    config.option.share = _share(config, sum("soak" in _fixtures(item) for item in items))


def _has_no_limit(item: pytest.Item) -> bool:
    return item.config.option.timeout is None and not item.get_closest_marker("timeout")


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _share(config: pytest.Config, checks: int) -> float:
    """Of the time of the run, the part for each of so many checks that would go on for ever."""
    processes = config.workerinput["workercount"] if hasattr(config, "workerinput") else 1
    return float(min(1.0, processes / max(1, checks)))


def _place(item: pytest.Item) -> tuple[bool, bool, int]:
    return not is_first(item), not comes_first(item), LAYERS.index(layer_of(item))


def pytest_runtest_logstart() -> None:
    STOPPED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A violation is reported as its own text, and as data beside it."""
    report = yield
    report.user_properties = [(name, _plain(value)) for name, value in report.user_properties]
    violation = find_violation(call.excinfo.value) if call.excinfo else None
    if violation is not None and (excuse := _excuse(Path(item.config.option.base))):
        report.longrepr = excuse
    elif violation is not None:
        report.longrepr = str(violation)
        data = {name: getattr(violation, name) for name in ("difference", "program", "steps", "origin", "story")}
        report.user_properties.append(("violation", data))
        item.user_properties.append((results.OUTCOME, "violation"))
        if isinstance(violation, Unruly):
            report.user_properties.append((UNRULY, True))
    elif report.failed and (writer := item.config.pluginmanager.get_plugin("fencepost-steps")):
        report.user_properties.append(("doing", writer.now()))
    return report


def _excuse(base: Path) -> str:
    """Why what looks wrong says nothing about the module; empty if it does."""
    if shutil.disk_usage(base).free < NO_ROOM:
        return f"no room is left for queue files in {base}"
    return "the gate was stopped meanwhile, and what it judges may have gone on" if STOPPED else ""


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Xdist sends no text with half a surrogate pair, and a module may say one back that it was given."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:  # noqa: ANN401 - of whatever a report consists
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_sendable(name): _sendable(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_sendable, value))
    return value


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
