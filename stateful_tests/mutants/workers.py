"""Wrong workers: each is one small edit of ``worker.py``, in the order of that file; the canary comes first."""

from __future__ import annotations

from typing import Final

from stateful_tests.mutants import Mutant
from stateful_tests.mutants.both import BOTH
from stateful_tests.mutants.workers_claim import CLAIM
from stateful_tests.mutants.workers_enqueue import ENQUEUE
from stateful_tests.mutants.workers_files import FILES
from stateful_tests.mutants.workers_finish import FINISH
from stateful_tests.mutants.workers_large import LARGE
from stateful_tests.mutants.workers_lease import LEASE
from stateful_tests.mutants.workers_opening import OPENING
from stateful_tests.mutants.workers_redrive import REDRIVE
from stateful_tests.mutants.workers_run import RUN
from stateful_tests.mutants.workers_send import SEND
from stateful_tests.mutants.workers_sweep import SWEEP
from stateful_tests.mutants.workers_values import VALUES
from stateful_tests.mutants.workers_write import WRITE

CANARY: Final = Mutant(
    "canary",
    "only the ticket that holds the lease finishes the job",
    (
        ("AND status = 'leased' AND qty = :qty AND owner = :owner AND token = :token\n", "\n"),
        (
            "  AND attempts = :attempt AND lease_until = :lease_until AND :now_ms < lease_until AND :now_ms < deadline",
            "",
        ),
    ),
    seen="cofin/litestar-queues#36",
)

WORKERS: Final = (
    CANARY,
    *VALUES,
    *WRITE,
    *OPENING,
    *ENQUEUE,
    *SWEEP,
    *CLAIM,
    *LEASE,
    *FINISH,
    *REDRIVE,
    *RUN,
    *SEND,
    *FILES,
    *LARGE,
    *BOTH,
)
