"""A failing program step by step, as data for the report: both replies, and the model's rows beside the file's.

The shape, all of it JSON: ``{"columns": {table: [name, …]}, "steps": [{"got", "want", "rows", "note"}, …]}``. A row is
``[table, model's values, file's values]``; ``null`` stands for a row that this side lacks, ``"="`` for an equal one.
The steps belong to the last lines of the program, one each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.contract import Reply
from model.counterexample import Rows, show, sql


@dataclass(frozen=True, slots=True)
class Taken:
    """One step: what the module replied and the model, and the rows of both after it. Text in place of the file's rows
    says why they could not be read; None, that nobody has looked.
    """

    got: Reply
    want: Reply
    model: Rows
    file: Rows | str | None


def story(steps: Sequence[Taken], tables: Mapping[str, type[Any]]) -> dict[str, Any]:
    """The steps as data; ``tables`` are the forms of their rows."""
    columns = {table: list(form._fields) for table, form in tables.items()}
    return {"columns": columns, "steps": [_step(step) for step in steps]}


def _step(step: Taken) -> dict[str, Any]:
    readable = step.file is not None and not isinstance(step.file, str)
    return {
        "got": show(step.got),
        "want": show(step.want),
        "rows": list(_pairs(step.model, step.file if readable else step.model)),
        "note": step.file if isinstance(step.file, str) else "" if readable else "the file's rows were not looked at",
    }


def _pairs(model: Rows, file: Rows) -> Iterator[list[Any]]:
    for table, right, mine in zip(model._fields, model, file, strict=True):
        for must, is_ in itertools.zip_longest(right, mine):
            yield [table, _texts(must), "=" if must == is_ else _texts(is_)]


def _texts(row: tuple[Any, ...] | None) -> list[str] | None:
    return None if row is None else [sql(value) for value in row]
