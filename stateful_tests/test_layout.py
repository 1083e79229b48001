"""The arrows between the parts, and the facts that two parts must state alike."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from model import contract, events, store
from model.diagram import diagram
from model.queue import Worker, load
from model.store import Client
from stateful_tests.machine import Machine, QueueMachine, rules_of
from stateful_tests.stream_machine import StoreMachine

if TYPE_CHECKING:
    import client
    import worker

    CONFORMS: Worker = worker
    RECEIVES: Client = client

ROOT = Path(__file__).parent.parent
PARTS = {"worker", "client", "model", "stateful_tests", "chaos"}
MAY_IMPORT = {
    "worker": set[str](),
    "client": set[str](),
    "model": {"model"},
    "stateful_tests": {"model", "stateful_tests"},
    "chaos": {"model", "chaos"},
}
IMPURE = {
    *("asyncio", "datetime", "multiprocessing", "os", "psutil", "random", "secrets", "shutil"),
    *("signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "uuid"),
}


def imported(file: Path) -> Iterator[str]:
    """The top-level name of each import in the file, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import hides where it leads"
            yield str(node.module).partition(".")[0]


def sources(part: str) -> list[Path]:
    return [ROOT / f"{part}.py"] if (ROOT / f"{part}.py").is_file() else sorted((ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_go_one_way(part: str) -> None:
    files = sources(part)
    assert files
    for file in files:
        allowed = MAY_IMPORT[part] | ({"worker", "client"} if file == Path(__file__) else set())
        assert set(imported(file)) & PARTS <= allowed, file


@pytest.mark.parametrize("name", contract.KINDS)
def test_what_is_shipped_needs_only_the_standard_library(name: str) -> None:
    assert set(imported(ROOT / f"{name}.py")) <= sys.stdlib_module_names


def test_the_model_is_pure_but_for_its_edges() -> None:
    edges = {"port.py", "queue.py", "store.py", "scratch.py", "runs.py", "steps.py", "__main__.py"}
    for file in sources("model"):
        if file.name not in edges and not file.name.startswith("test_"):
            assert not set(imported(file)) & IMPURE, file


def test_one_place_loads_modules_by_path() -> None:
    loaders = [file for part in MAY_IMPORT for file in sources(part) if "spec_from_file_location(" in file.read_text()]
    assert [file.name for file in loaders if file != Path(__file__)] == ["port.py"]


def test_the_shipped_worker_holds_the_same_literals() -> None:
    shipped = load(ROOT / "worker.py")
    assert vars(shipped)["_BOUNDS"] == {name: tuple(bound) for name, bound in contract.BOUNDS.items()}
    assert vars(shipped)["_TABLES"] == contract.SCHEMA
    assert vars(shipped)["_IDENTIFIER"].pattern == contract.IDENTIFIER
    assert vars(shipped)["_OUTCOMES"] == contract.OUTCOMES


def test_the_shipped_client_holds_the_same_literals() -> None:
    shipped = store.load(ROOT / "client.py")
    assert vars(shipped)["_BOUNDS"] == {name: tuple(bound) for name, bound in events.BOUNDS.items()}
    assert tuple(vars(shipped)["_TABLES"]) == tuple(store.Store.tables)


def test_no_seq_or_cursor_has_too_many_digits_for_the_shipped_client(tmp_path: Path) -> None:
    shipped, far = store.load(ROOT / "client.py"), 10**5000
    with contextlib.closing(shipped.open_store(tmp_path / "store.db")) as con, pytest.raises(shipped.Gap):
        shipped.apply_event(con, far, 0)
    with pytest.raises(shipped.ResyncRequired):
        shipped.replay([(far, 7)], 0, 1)
    with pytest.raises(shipped.ResyncRequired):
        shipped.replay([(0, 7)], far, 1)


def test_the_readme_states_the_same_bounds() -> None:
    readme = (ROOT / "README.md").read_text()
    for name, bound in (contract.BOUNDS | events.BOUNDS).items():
        assert f"| `{name}` | {_power(bound.low)} | {_power(bound.high)} |" in readme


def _power(number: int) -> str:
    """As people write it: 10**15 - 60000, not fifteen digits."""
    if number == 10**15:
        return "10**15"
    return "10**15 - 60000" if number == 10**15 - 60_000 else str(number)


def test_the_readme_shows_the_diagram_of_the_model() -> None:
    assert f"```mermaid\n{diagram()}\n```" in (ROOT / "README.md").read_text()


def test_the_readmes_wrong_sign_is_one_of_the_workers() -> None:
    edit = re.search(r"sed 's/(.+)/(.+)/' worker\.py", (ROOT / "README.md").read_text())
    assert edit is not None
    assert (ROOT / "worker.py").read_text().count(edit[1]) == 1
    assert edit[2] == edit[1].replace("<", "<=")


OPERATIONS = {"worker": contract.Plain.__args__, "client": events.Plain.__args__}
HOOKS = {"worker": contract.FAULT_HOOKS, "client": events.FAULT_HOOKS}
RULES: dict[str, tuple[type[Machine], set[str]]] = {
    "worker": (QueueMachine, {"run_once", "reopen"}),
    "client": (StoreMachine, {"malformed", "reopen"}),
}
"""The machine of each kind, and its rules beside those of the plain operations."""


@pytest.mark.parametrize("name", contract.KINDS)
def test_every_operation_has_its_rule(name: str) -> None:
    machine, others = RULES[name]
    plain = {op.__name__.lower() for op in OPERATIONS[name]}
    assert rules_of(machine) == plain | others
    assert not plain & others


@pytest.mark.parametrize("name", contract.KINDS)
def test_every_hook_belongs_to_an_operation(name: str) -> None:
    assert {hook.op for hook in HOOKS[name]} <= set(OPERATIONS[name])
    for op in OPERATIONS[name]:
        kept = [hook.kept for hook in HOOKS[name] if hook.op is op]
        assert kept == sorted(kept), "once kept, a change stays kept"
