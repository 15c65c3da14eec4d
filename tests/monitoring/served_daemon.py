"""Run `tierd run` on the machine of tests/monitoring/machine.py.

python -m tests.monitoring.served_daemon MACHINE_SOCKET CONFIG RUN_DIR STATE_DIR
"""

import sys
from pathlib import Path

from tests.monitoring.machine import Served, ServedInbox
from tierd.loop import service
from tierd.record.rundir import RunDir


def main() -> int:
    socket, config, run_dir, state_dir = map(Path, sys.argv[1:])
    served = Served(socket)
    stage = service.Stage("a served machine", served, served, "simulated", ServedInbox)
    options = service.Options(
        root=run_dir,
        folder=RunDir(run_dir, state_dir),
        config=config,
        config_required=True,
        drop_ins=None,
        observe=False,
        for_s=None,
    )
    return service.run(options, stage, lambda _line: None)


if __name__ == "__main__":
    sys.exit(main())
