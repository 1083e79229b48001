"""The wrong receivers: each a small edit of ``client.py``, named after what it does wrong. The canary comes first."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant
from stateful_tests.mutants.both import BOTH
from stateful_tests.mutants.clients_events import STORE
from stateful_tests.mutants.clients_large import LARGE
from stateful_tests.mutants.clients_lines import LINES
from stateful_tests.mutants.clients_sessions import SESSIONS

CLIENTS: Final[tuple[Mutant, ...]] = (*STORE, *LINES, *SESSIONS, *LARGE, *BOTH)
