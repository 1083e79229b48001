"""The report to look at: plain data in, the text of one HTML file out, which needs nothing but a browser.

The data, all of it JSON; whatever is missing is left out of the page, and every text is shown as it is:

``verdict``         valid, invalid or unknown
``facts``           [[name, value], …]: what was judged, seed and so on
``failures``        [{kind, layer, title, difference, program, replay, story, timeline}, …]: ``story`` is that of
                    ``model.telling``, ``timeline`` the number of one of the timelines; both may be None
``unanswered``      [line, …], and so ``not_tried``
``layers``          [[judged, layer, checks, did, result, seconds], …], all of it text
``coverage``        [{kind, ops, diagram}, …]: ``ops`` is [[operation, done, in all], …]; ``diagram`` is that of
                    ``model.diagram``, or None
``timelines``       [{title, lanes, items, clock, end, job, wrong}, …]: a lane is {group, name, pid, says}; an item is
                    [lane, kind, from, to, job, token, text, says], times in µs, ``to`` None for what never returned;
                    ``clock`` is [[µs, ms], …]: what the queue's clock showed; ``job``, and the items whose numbers are
                    in ``wrong``, are what to look at first
``observed``        [[count, what], …]
``not_guaranteed``  [[what, why], …]
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end the element that holds the data, or begin another one in it, stands in it as JSON's own escape."""


def page(data: Mapping[str, Any]) -> str:
    """The whole file. Its policy lets it run its own script, wear its own style, and ask nobody for anything."""
    style, script = _part("page.css"), _part("page.js")
    parts = {
        "policy": f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_hash(style)}; "
        f"script-src {_hash(script)}",
        "title": html.escape(f"Fencepost: {data['verdict']}"),
        "style": style,
        "script": script,
        "data": embedded(data),
    }
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], _part("page.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """The data as JSON that no HTML parser sees anything in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return re.sub("[<>&]", lambda match: ESCAPES[match[0]], text)


@cache
def _part(name: str) -> str:
    return (resources.files("model") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
