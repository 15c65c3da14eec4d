"""In a guest whose first process is systemd: tierd as its unit, from the first start to the last.

What runs is the shipped unit with the shipped example of a quick watchdog; tierd lies where a
package would put it.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any
from urllib.request import urlopen

from tests.e2e import inside
from tests.e2e.inside import note, wait_for

UNITS = Path("/etc/systemd/system")
LIBRARY = Path("/usr/lib/python3/dist-packages/tierd")
PROGRAM = Path("/usr/bin/tierd")
HAND_OVER = Path("/run/tierd/hand-over")

# A watchdog's limit, a pause, and three starts of Python.
RESTART_S_MAX = 240.0

GOOD = "headroom: 2%\n"
BAD = "headroom: much\n"

# Files that the unit may write, and some that it may not.
PLACES = {
    "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds": True,
    "/sys/kernel/mm/numa/demotion_enabled": True,
    "/sys/module/damon_stat/parameters/enabled": True,
    "/run/tierd/probe": True,
    "/var/lib/tierd/probe": True,
    "/sys/kernel/mm/transparent_hugepage/enabled": False,
    "/sys/devices/system/node/node1/compact": False,
    "/proc/sys/kernel/numa_balancing": False,
    "/proc/sys/vm/swappiness": False,
    "/sys/fs/cgroup/cgroup.procs": False,
    "/etc/tierd/tierd.yaml": False,
    "/usr/bin/tierd": False,
    "/root/probe": False,
}

PROBE = """
import json, os, sys
found = {}
for path in json.loads(sys.argv[1]):
    try:
        # Opened for writing and not written: what a mount or the kernel refuses, it refuses here.
        ours = not path.startswith(("/sys", "/proc"))
        os.close(os.open(path, os.O_WRONLY | (os.O_CREAT if ours else 0)))
        found[path] = True
    except FileNotFoundError:
        found[path] = None
    except OSError:
        found[path] = False
with open("/run/tierd/found", "w") as file:
    json.dump(found, file)
"""


def systemctl(*words: str) -> "CompletedProcess[str]":
    return run(["systemctl", *words], capture_output=True, text=True, check=False)


def shown(name: str) -> str:
    return systemctl("show", "--value", "-p", name, "tierd").stdout.strip()


def install() -> None:
    """As a package would: the unit is there, and does not run."""
    # As packages do too. Emulated, it takes twenty seconds to compile at every start.
    run([sys.executable, "-m", "compileall", "-q", "tierd"], check=True)
    shutil.copytree("tierd", LIBRARY)
    PROGRAM.write_text("#!/usr/bin/python3\nfrom tierd.cli import main\nraise SystemExit(main())\n")
    PROGRAM.chmod(0o755)
    shutil.copy("systemd/tierd.service", UNITS)
    drop_ins = UNITS / "tierd.service.d"
    drop_ins.mkdir()
    shutil.copy("systemd/examples/quick-watchdog.conf", drop_ins)
    inside.configure("")
    systemctl("daemon-reload")


def probe() -> Mapping[str, bool | None]:
    """What a program may write in the unit's place."""
    lines = (UNITS / "tierd.service").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("Exec", "Type=", "Watchdog", "Restart"))]
    script = Path("/usr/lib/tierd-probe.py")
    script.write_text(PROBE)
    places = json.dumps(sorted(PLACES)).replace('"', '\\"')
    start = f'Type=oneshot\nExecStart=/usr/bin/python3 {script} "{places}"'
    unit = "\n".join(start if line == "[Service]" else line for line in kept)
    unit = unit.replace(start, f"[Service]\n{start}")
    (UNITS / "probe.service").write_text(unit)
    systemctl("daemon-reload")
    systemctl("start", "probe")
    found: dict[str, bool | None] = json.loads(Path("/run/tierd/found").read_text())
    return found


def metrics() -> dict[str, float]:
    with urlopen("http://127.0.0.1:19100/metrics", timeout=inside.PATIENCE_S) as response:
        lines = response.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith("tierd_"))
    return {name: float(value) for name, _, value in pairs}


def standing() -> dict[str, Any]:
    return {
        "active": shown("ActiveState"),
        "restarts": int(shown("NRestarts")),
        "pids": inside.pids(),
        "status": inside.status().get("state"),
        "reason": inside.status().get("reason"),
        "metrics": metrics(),
    }


def comes_back(restarts: int) -> dict[str, Any]:
    """After what systemd should have noticed."""
    wait_for("a restart", lambda: int(shown("NRestarts")) > restarts, RESTART_S_MAX)
    wait_for("tierd to be active", lambda: shown("ActiveState") == "active", RESTART_S_MAX)
    return standing()


def life(facts: dict[str, Any]) -> None:
    """Started, reloaded, killed, frozen, replaced, stopped."""
    facts["start"] = systemctl("start", "tierd").returncode
    facts["started"] = standing()
    facts["status_text"] = shown("StatusText")
    note("started")
    inside.configure(GOOD)
    facts["reload_good"] = systemctl("reload", "tierd").returncode
    facts["after_good"] = standing()
    inside.configure(BAD)
    refused = systemctl("reload", "tierd")
    facts["reload_bad"] = refused.returncode
    time.sleep(inside.POLL_S)
    wait_for("the metric", lambda: metrics()["tierd_config_last_reload_successful"] == 0)
    facts["after_bad"] = standing()
    inside.configure(GOOD)
    facts["reload_again"] = systemctl("reload", "tierd").returncode
    wait_for("the metric", lambda: metrics()["tierd_config_last_reload_successful"] == 1)
    note("reloaded")
    os.kill(int(shown("MainPID")), signal.SIGKILL)
    facts["after_kill"] = comes_back(0)
    note("killed")
    os.kill(int(shown("MainPID")), signal.SIGSTOP)
    facts["after_freeze"] = comes_back(facts["after_kill"]["restarts"])
    note("frozen")
    HAND_OVER.touch()
    facts["restart"] = systemctl("restart", "tierd").returncode
    facts["after_hand_over"] = standing()
    facts["stop"] = systemctl("stop", "tierd").returncode
    facts["stopped"] = [shown("ActiveState"), shown("Result")]
    facts["left_by_stop"] = inside.neighbourhood()
    note("stopped")


def gives_up(facts: dict[str, Any]) -> None:
    """What does not mend itself is not tried again, and leaves nothing behind."""
    inside.configure(BAD)
    facts["start_bad"] = systemctl("start", "tierd").returncode
    facts["start_bad_ended"] = [shown("ExecMainStatus"), shown("NRestarts"), shown("ActiveState")]
    inside.configure("")
    systemctl("reset-failed", "tierd")
    systemctl("start", "tierd")
    inside.configure(BAD)
    os.kill(int(shown("MainPID")), signal.SIGKILL)
    wait_for("tierd to give up", lambda: shown("ActiveState") == "failed", RESTART_S_MAX)
    facts["gave_up"] = shown("ExecMainStatus")
    facts["left_by_giving_up"] = inside.neighbourhood()


def main() -> int:
    inside.begin()
    facts: dict[str, Any] = {"neighbourhood": inside.neighbourhood()}
    install()
    try:
        life(facts)
        gives_up(facts)
        facts["probe"] = probe()
        found = run(
            ["journalctl", "-u", "tierd", "TIERD_EVENT=running", "-o", "json"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        facts["journal"] = [json.loads(line) for line in found.splitlines()]
    finally:
        logged = run(["journalctl", "-u", "tierd", "-u", "probe", "--no-pager", "-o", "cat"],
                     capture_output=True, text=True, check=False)  # fmt: skip
        inside.LOG.write_text(logged.stdout)
        sys.stderr.write(logged.stdout)
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
