"""What a module gets that does to its process what no module may: a verdict in time, never valid, and one line."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from model.contract import CLIENT
from stateful_tests import footprint, visit
from stateful_tests.ending import Unruly
from stateful_tests.footprint import Order, Word
from stateful_tests.test_gate import environment

ROOT: Final = Path(__file__).parent.parent
CLAIMS: Final = "stateful_tests/test_contract_claim.py"
FOOTPRINT: Final = "stateful_tests/test_contract_footprint.py"

IMPORT: Final = ""
CLAIM: Final = '    owner = _identifier("owner", owner)\n'
LOCKED: Final = "        con.execute(_QUARANTINE, {"
APPLY: Final = "    _event(seq, delta)\n    if fresh"


@dataclass(frozen=True, slots=True)
class Hostile:
    """Statements that are added to a shipped file, at its end or before a line of it; the verdict, and what it says."""

    where: str
    code: str
    says: str
    word: str = "invalid"
    kind: str = "worker"

    def write(self, folder: Path) -> Path:
        text = (ROOT / f"{self.kind}.py").read_text()
        if self.where == IMPORT:
            text += self.code + "\n"
        else:
            assert self.where in text, f"the edit no longer applies: {self.where}"
            space = self.where[: len(self.where) - len(self.where.lstrip())]
            text = text.replace(self.where, f"{space}{self.code}\n{self.where}", 1)
        file = folder / "theirs.py"
        file.write_text(text)
        return file


HOSTILE: Final = {
    # --- it prints
    "prints on import": Hostile(IMPORT, "print('hello')", "import worker writes to standard output: 'hello"),
    "prints in a call": Hostile(CLAIM, "print('claim')", "100) writes to standard output: 'claim"),
    "writes to standard error": Hostile(CLAIM, "os.write(2, b'oh')", "100) writes to standard error: 'oh'"),
    "warns": Hostile(CLAIM, "import warnings; warnings.warn('slow')", "100) writes to standard error: "),
    "prints in a receiver": Hostile(APPLY, "print(seq)", "0, 7) writes to standard output: '0", kind="client"),
    # --- it ends its process
    "exits on import": Hostile(IMPORT, "import sys; sys.exit(0)", "does not import: SystemExit: 0", "unknown"),
    "exits hard on import": Hostile(IMPORT, "os._exit(0)", "does not import: it ends the process", "unknown"),
    "exits in a call": Hostile(CLAIM, "import sys; sys.exit(0)", "100) raises SystemExit: 0, must return"),
    "exits hard in a call": Hostile(CLAIM, "os._exit(0)", "100) ends its process, with status 0"),
    "exits hard in a receiver": Hostile(APPLY, "os._exit(0)", "0, 7) ends its process, with status 0", kind="client"),
    "dies in a call": Hostile(CLAIM, "os.kill(os.getpid(), 9)", "100) ends its process, with status -9"),
    "aborts when it ends": Hostile(IMPORT, "import atexit; atexit.register(os.abort)", "", "unknown"),
    # --- it does not come back
    "hangs with the lock": Hostile(LOCKED, "import time; time.sleep(1e6)", "100) does not return within 20 s"),
    # --- it leaves something behind
    "leaves a connection": Hostile(CLAIM, "vars(claim)['c'] = sqlite3.connect(':memory:')", "leaves a connection open"),
    "leaves connections on import": Hostile(IMPORT, "_c = sqlite3.connect('queue.db')", "leaves a connection open"),
    "leaves a descriptor": Hostile(CLAIM, "os.open('/dev/null', 0)", "100) leaves a descriptor open: /dev/null"),
    "leaves a descriptor of its own file": Hostile(
        CLAIM, "vars(claim)['f'] = open('queue.db')", "100) leaves a descriptor open: queue.db"
    ),
    "prints in a session": Hostile(
        "    timeout = _seconds(timeout)\n", "print(port)", "5)) writes to standard output: ", kind="client"
    ),
    "leaves a file": Hostile(CLAIM, "open('claims.log', 'w').close()", "100) leaves a file behind: claims.log"),
    "leaves a thread": Hostile(
        CLAIM,
        "import threading; threading.Thread(target=threading.Event().wait).start()",
        "100) leaves a thread behind",
    ),
    "leaves a thread on import": Hostile(
        IMPORT,
        "import threading; threading.Thread(target=threading.Event().wait).start()",
        "import worker leaves a thread behind",
    ),
    "leaves a process": Hostile(
        CLAIM, "import subprocess; subprocess.Popen(['sleep', '99'])", "100) leaves a process behind"
    ),
    "leaves a process on import": Hostile(
        IMPORT, "import subprocess; _p = subprocess.Popen(['sleep', '99'])", "import worker leaves a process behind"
    ),
    "forks": Hostile(CLAIM, "os.fork() or __import__('time').sleep(99)", "100) leaves a process behind"),
    # --- it changes what is not its own
    "replaces sqlite3.connect": Hostile(
        IMPORT, "_f = sqlite3.connect; sqlite3.connect = lambda *a, **k: _f(*a, **k)", "worker replaces sqlite3.connect"
    ),
    "replaces time.time": Hostile(CLAIM, "import time; time.time = lambda: 0", "100) replaces time.time"),
    "replaces a method": Hostile(
        APPLY, "import socket; socket.socket.accept = None", "replaces socket.socket.accept", kind="client"
    ),
    "replaces standard output": Hostile(IMPORT, "import io, sys; sys.stdout = io.StringIO()", "replaces sys.stdout"),
    "replaces a module": Hostile(IMPORT, "import sys; sys.modules['time'] = sys", "replaces sys.modules['time']"),
    "changes the directory": Hostile(CLAIM, "os.chdir('/')", "100) changes the working directory"),
    "changes the environment": Hostile(IMPORT, "os.environ['TZ'] = 'UTC0'", "changes the environment variable TZ"),
    "catches a signal": Hostile(
        IMPORT, "import signal; signal.signal(signal.SIGALRM, print)", "changes the handler of SIGALRM"
    ),
    "filters warnings": Hostile(IMPORT, "import warnings; warnings.simplefilter('ignore')", "changes warnings.filters"),
    "adapts bools": Hostile(IMPORT, "sqlite3.register_adapter(bool, int)", "changes the adapter of builtins.bool"),
    # --- it answers to no name, or to a wrong one
    "raises from __getattr__": Hostile(
        IMPORT, "def __getattr__(name): raise RuntimeError(name)", "hasattr(worker, 'no_such_name') raises RuntimeError"
    ),
    "raises for what it lacks": Hostile(
        IMPORT,
        "del claim\ndef __getattr__(name): raise RuntimeError(name)",
        "not a worker module: to ask for its names raises RuntimeError: claim",
        "unknown",
    ),
}


def gate(folder: Path, hostile: Hostile, *arguments: str) -> tuple[int, list[str], dict[str, Any]]:
    """How the gate ends, what it says, and the verdict that it leaves."""
    module = hostile.write(folder)
    command = [sys.executable, "-m", "pytest", "--gate", f"--{hostile.kind}", str(module), "-p", "no:cacheprovider"]
    done = subprocess.run(  # noqa: S603 - our own gate
        [*command, "--profile", "quick", "--results", str(folder / "runs"), *arguments],
        cwd=ROOT,
        env=environment(folder / "runs"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    verdict = json.loads((folder / "runs" / "latest" / "verdict.json").read_text())
    return done.returncode, done.stdout.splitlines(), verdict


def errors_and_failures(folder: Path) -> tuple[bool, bool]:
    """Whether JUnit's file has any of each."""
    suite = ET.parse(folder / "runs" / "latest" / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    return suite.get("errors") != "0", suite.get("failures") != "0"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_gets_an_honest_verdict(tmp_path: Path, name: str) -> None:
    hostile = HOSTILE[name]
    status, said, verdict = gate(tmp_path, hostile, "-n0", FOOTPRINT)
    assert (status, said[-1], verdict["verdict"]) == (
        {"invalid": 1, "unknown": 2}[hostile.word],
        f"verdict: {hostile.word}",
        hostile.word,
    ), said
    assert any(hostile.says in line for line in said), said
    assert errors_and_failures(tmp_path) == (hostile.word == "unknown", hostile.word == "invalid")


def test_a_receiver_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "PATIENCE_S", 1.0)
    module = Hostile(APPLY, "import time; time.sleep(1e6)", "", kind="client").write(tmp_path)
    lines = ["import client", "con1 = client.open_store('store.db')", "client.apply_event(con1, 0, 7)"]
    with pytest.raises(Unruly, match=r"^client.apply_event\(con1, 0, 7\) does not return within 1 s"):
        visit.visit(CLIENT, module, lines, tmp_path)


def test_nothing_goes_on_with_an_unruly_module(tmp_path: Path) -> None:
    _, _, verdict = gate(tmp_path, HOSTILE["leaves a process"], "-n0", CLAIMS, FOOTPRINT)
    assert verdict["layers"][0]["checks"] == 1
    assert "ended early: nothing can be relied on where this module has run" in verdict["unanswered"]


HARMLESS: Final = """\
import decimal, logging, subprocess, threading, uuid
    logging.getLogger(__name__).warning("claim")
    thread = threading.Thread(target=decimal.getcontext)
    thread.start()
    thread.join()
    subprocess.run(["true"], check=True)
    sqlite3.connect(":memory:").close()
    os.close(os.open("/dev/null", 0))
    cache = vars(claim).setdefault("cache", [])
    cache.append(owner)
    class Mine: pass
    sqlite3.register_adapter(Mine, str)"""


def test_what_a_call_takes_along_is_its_own(tmp_path: Path) -> None:
    status, said, verdict = gate(tmp_path, Hostile(CLAIM, HARMLESS, ""), "-n0", FOOTPRINT)
    assert (status, verdict["failures"]) == (2, []), said
    assert verdict["unanswered"] == ["only a part of the checks was chosen"]


# --- where no check is there to say it --------------------------------------------------------------------------------

EXITS: Final = Hostile(CLAIM, "os._exit(0)", "")
HOLDS_THE_INTERPRETER: Final = Hostile(
    CLAIM, "import collections, itertools; collections.deque(itertools.repeat(0), maxlen=0)", ""
)


@pytest.mark.parametrize(("hostile", "ends"), [(EXITS, 0), (HOLDS_THE_INTERPRETER, 1)], ids=["exits", "hangs"])
def test_the_exit_status_is_never_the_modules(tmp_path: Path, hostile: Hostile, ends: int) -> None:
    status, said, verdict = gate(tmp_path, hostile, "-n0", "--timeout", "1", CLAIMS)
    assert (status, said[-1], verdict["verdict"]) == (2, "verdict: unknown", "unknown")
    assert f"unanswered  the process that runs the checks ended with status {ends} in {CLAIMS}::" in "\n".join(said)
    assert errors_and_failures(tmp_path) == (True, False)
    assert not (tmp_path / "runs" / "latest" / "running").exists()


def test_processes_that_end_are_given_up(tmp_path: Path) -> None:
    status, said, verdict = gate(tmp_path, EXITS, "-n2", CLAIMS)
    assert (status, said[-1]) == (2, "verdict: unknown")
    assert "given up after 3 checks that did not come back" in verdict["unanswered"]
    assert errors_and_failures(tmp_path) == (True, False)


def test_an_error_of_the_look_is_not_held_against_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order("worker", str(ROOT / "worker.py"), str(tmp_path), "", ["import worker"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(footprint, "_beside", lambda _: 1 // 0)
    monkeypatch.setattr(footprint.Surroundings, "unlike", lambda *_: "")
    word = list(footprint.obey(order))[-1]
    assert word == Word(0, "cannot be looked at: ZeroDivisionError: integer division or modulo by zero", reply=True)
    gc.unfreeze()
