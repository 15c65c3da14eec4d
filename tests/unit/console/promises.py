"""What a row of the table of the command line is, and the daemons that may answer."""

import json
from dataclasses import dataclass, replace

from tests.fixtures.snapshots import FRESH, SNAPSHOT
from tierd.record.snapshot import State, document, look


@dataclass(frozen=True)
class Row:
    """A promise: texts that a stream must have, or that it is empty.

    `{root}` is a captured machine, `{tmp}` an empty directory, `{run}` the directory of a daemon.
    """

    machine: str
    argv: str
    exit_code: int
    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()
    daemon: str = "active"
    """Which of DAEMONS answers in `{run}`."""


DAEMONS: dict[str, dict[str, str]] = {
    "active": {
        "/v1/status": json.dumps(document(FRESH)),
        "/v1/recent": json.dumps({"looks": [look(FRESH)]}),
    },
    "stuck": {"/v1/status": json.dumps(document(replace(SNAPSHOT, state=State.degraded)))},
    "degraded": {
        "/v1/status": json.dumps(
            document(replace(FRESH, state=State.degraded, reason="node 1 is gone"))
        )
    },
    "starting": {
        "/v1/status": json.dumps({"schema": "tierd.status/1", "state": "starting"}),
        "/v1/recent": json.dumps({"looks": []}),
    },
    "stranger": {"/v1/status": "hello"},
}
