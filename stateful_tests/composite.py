"""Runs the steps of a composite action here, as GitHub's runner does: conditions, expressions, files, shell."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

EXPRESSION: Final = re.compile(r"\$\{\{ (.+?) \}\}")
SHELLS: Final = {"bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail")}
KEPT: Final = re.compile(r"PATH|HOME|LANG|TMPDIR|PIP_\w+")
"""What of our environment a job sees: the rest speaks of the pytest around it."""

Outputs = dict[str, str]
Stub = Callable[[Outputs], Outputs]


@dataclass
class Job:
    """A user's job that has come to the action. ``uses`` stands in for the actions of others: inputs to outputs."""

    action: Path
    workspace: Path
    temp: Path
    inputs: Outputs
    uses: Mapping[str, Stub]
    steps: dict[str, Outputs] = field(default_factory=dict)
    """The outputs by step. A step that is here already is not run again."""
    status: int = 0
    log: str = ""
    summary: str = ""

    def run(self, steps: list[dict[str, Any]]) -> None:
        """Run them in their order; a step without a condition does not run after a failure."""
        for step in steps:
            if step.get("id") not in self.steps and self._wanted(step):
                self.steps[step.get("id", "")] = self._run(step)

    def filled(self, text: str) -> str:
        """The text with each ``${{ ... }}`` evaluated."""
        return EXPRESSION.sub(lambda found: str(self.value(found[1])), text)

    def value(self, text: str) -> str | bool:
        """What an expression is, of the few forms that action.yml has; ValueError for any other."""
        if " && " in text:
            return all(self.value(part) for part in text.split(" && "))
        if match := re.fullmatch(r"(\S+) ([!=]=) '(\w*)'", text):
            return (self.value(match[1]) == match[3]) == (match[2] == "==")
        if text == "always()":
            return True
        if match := re.fullmatch(r"inputs\.([\w-]+)", text):
            return self.inputs[match[1]]
        if match := re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", text):
            return self.steps.get(match[1], {}).get(match[2], "")
        if text == "github.action_path":
            return str(self.action)
        raise ValueError(f"no such expression here: {text}")

    def _wanted(self, step: dict[str, Any]) -> bool:
        condition = step.get("if", "")
        holds = bool(self.value(condition)) if condition else True
        return holds and (not self.status or "always()" in condition)

    def _run(self, step: dict[str, Any]) -> Outputs:
        if "uses" in step:
            given = {name: self.filled(text) for name, text in step["with"].items()}
            return self.uses[step["uses"].partition("@")[0]](given)
        with tempfile.TemporaryDirectory(dir=self.temp) as folder:
            files = {name: Path(folder) / name for name in ("script", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
            files["script"].write_text(step["run"])
            for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
                files[name].touch()
            done = subprocess.run(  # noqa: S603 - our own steps
                [*SHELLS[step["shell"]], str(files["script"])],
                cwd=self.filled(step.get("working-directory", str(self.workspace))),
                env=self._environment(files, step.get("env", {})),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self.status = self.status or done.returncode
            self.log += done.stdout
            self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
            lines = files["GITHUB_OUTPUT"].read_text().splitlines()
            return dict(line.split("=", 1) for line in lines)

    def _environment(self, files: Mapping[str, Path], env: Outputs) -> Outputs:
        return {
            **{name: value for name, value in os.environ.items() if KEPT.fullmatch(name)},
            **{name: str(file) for name, file in files.items() if name.startswith("GITHUB_")},
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
            "CI": "true",
            **{name: self.filled(value) for name, value in env.items()},
        }
