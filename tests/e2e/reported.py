"""In a guest where nothing happens: `tierd report --ab`, and what it leaves."""

import json
import sys
import time

from tests.e2e import inside

# Turns this short still have several looks each.
TURN_S = 16
PAIRS = 3
# tierd settles: what the boot touched is cold again, and kdamonds have chosen their intervals.
SETTLE_S = 20


def main() -> int:
    inside.begin()
    inside.configure("")
    daemon = inside.started()
    time.sleep(SETTLE_S)
    done = inside.verb("report", "--ab", f"{TURN_S}s", "--turns", str(PAIRS), "--json")
    state = inside.status()["state"]
    inside.tell(
        {
            "status": done.returncode,
            "said": done.stderr,
            "report": json.loads(done.stdout),
            "state": state,
            "exit": daemon.stop(),
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
