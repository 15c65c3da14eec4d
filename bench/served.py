"""Runs `tierd run`, unchanged, on the files that `bench.cost` has laid out. It imports no more.

    python -m bench.served BASE

The resident set of tierd is measured on this process. It has the arguments, configuration, sockets
and threads that users have. Only commands have no effect, because there is no kernel to obey them.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from tierd import cli
from tierd.loop import service
from tierd.sysfs import RealSysfs


@dataclass(slots=True)
class Kept(RealSysfs):
    """Laid-out files that keep what is written, except for commands."""

    def write(self, path: str, value: str) -> None:
        if not path.endswith("/state"):
            (self.root / path).write_text(value)


def main() -> int:
    base = Path(sys.argv[1])
    vars(service)["RealSysfs"] = Kept
    return cli.main(
        [
            *("run", "--root", str(base / "root"), "--config", str(base / "tierd.yaml")),
            *("--run-dir", str(base / "run"), "--state-dir", str(base / "lib")),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
