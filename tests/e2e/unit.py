"""In a guest whose first process is systemd: the Debian package from installation to purge.

It runs the unit of the package, with the shipped example of a quick watchdog.
"""

import grp
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

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import note, wait_for

UNITS = Path("/etc/systemd/system")
PACKAGED_UNIT = Path("/lib/systemd/system/tierd.service")
PACKAGE = "/job/tierd.deb"
UPGRADE = "/job/upgrade.deb"

# The group that may read with the shipped example, and a user who is in no group.
READERS = "tierd"
NOBODY = 65534

# Where the package has files, or tierd makes some.
KNOWN_PLACES = (
    "/etc/tierd",
    "/lib/systemd/system/tierd.service",
    "/run/tierd",
    "/usr/bin/tierd",
    "/usr/lib/python3/dist-packages/tierd",
    "/usr/share/doc/tierd",
    "/usr/share/man/man8/tierd.8.gz",
    "/var/lib/tierd",
)

# The set of pages that should be promoted.
HOT = "hot"
SLOW = 1
ARRIVED_SHARE = 0.9
PROMOTED = "tierd_promoted_bytes_total"
DEMOTED = "tierd_demoted_bytes_total"
MOVES_S_MAX = 150.0

# The limit of the watchdog, a pause, and three starts of Python.
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
    "/proc/sysrq-trigger": False,
    "/proc/irq/default_smp_affinity": False,
    "/sys/fs/cgroup/cgroup.procs": False,
    "/etc/tierd/tierd.yaml": False,
    "/usr/bin/tierd": False,
    "/root/probe": False,
}

# The ports that the unit must be able to bind. This does not test that it cannot bind others: no
# systemd of the guests enforces that (252 is built without it, 257 needs libbpf).
PORTS = (19100,)

PROBE = """
import json, os, socket, sys
found = {}
for port in json.loads(sys.argv[2]):
    try:
        with socket.socket() as sock:
            # As tierd does: connections of one before may not be quite over.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
        found[port] = True
    except OSError:
        found[port] = False
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


def apt(*words: str) -> int:
    """Run apt-get without questions and without a network. Return its exit status."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = run(["apt-get", "-q", "-y", *words], capture_output=True, env=environment, check=False)
    note(f"apt-get {' '.join(words)}: {(done.stdout + done.stderr).decode()}")
    return done.returncode


def install(facts: dict[str, Any]) -> None:
    """Install the package. The unit is there then, and does not run."""
    facts["install"] = apt("install", PACKAGE)
    facts["installed"] = [systemctl("is-enabled", "tierd").stdout.strip(), shown("ActiveState")]
    facts["config_is_valid"] = run(["tierd", "check"], capture_output=True, check=False).returncode
    facts["manual"] = Path("/usr/share/man/man8/tierd.8.gz").exists()
    drop_ins = UNITS / "tierd.service.d"
    drop_ins.mkdir()
    shutil.copy("systemd/examples/quick-watchdog.conf", drop_ins)
    systemctl("daemon-reload")


def purge(facts: dict[str, Any]) -> None:
    """Purge the package while the unit runs."""
    inside.configure(GOOD)
    systemctl("reset-failed", "tierd")
    facts["start_before_purge"] = systemctl("start", "tierd").returncode
    readers(facts)
    facts["purge"] = apt("purge", "tierd")
    facts["purged"] = [path for path in KNOWN_PLACES if Path(path).exists()]
    facts["left_by_purge"] = inside.neighbourhood()


def readers(facts: dict[str, Any]) -> None:
    """Use two shipped examples: a group may ask, but only root may command; kdamonds are nice."""
    run(["groupadd", "--system", READERS], check=True)
    gid = grp.getgrnam(READERS).gr_gid
    for name in ("readers", "programs-first"):
        shutil.copy(f"systemd/examples/{name}.conf", UNITS / "tierd.service.d")
    systemctl("daemon-reload")
    facts["restart"] = systemctl("restart", "tierd").returncode
    facts["niceness_with_drop_in"] = niceness()
    found = Path("/run/tierd/api.sock").stat()
    facts["socket"] = [found.st_gid == gid, oct(found.st_mode & 0o777)]
    facts["as_member"] = [asked_as(gid, "status"), asked_as(gid, "pause")]
    facts["as_other"] = asked_as(NOBODY, "status")


def asked_as(gid: int, verb: str) -> int:
    """Return the exit status that the user nobody gets, with the rights of one group."""
    rights = [f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={gid}"]
    return run(["setpriv", *rights, "tierd", verb], capture_output=True, check=False).returncode


def probe() -> Mapping[str, bool | None]:
    """Return which files a program could write if the unit ran it."""
    lines = PACKAGED_UNIT.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("Exec", "Type=", "Watchdog", "Restart"))]
    script = Path("/usr/lib/tierd-probe.py")
    script.write_text(PROBE)
    places = json.dumps(sorted(PLACES)).replace('"', '\\"')
    words = f'"{places}" "{json.dumps(PORTS)}"'
    start = f"Type=oneshot\nExecStart=/usr/bin/python3 {script} {words}"
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


def promoted(sets: WorkloadSets) -> dict[str, float]:
    """Return the bytes of the hot set that have left the slow node, and what a scrape says."""
    placed = sum(sets.where(HOT).values()) * PAGE

    def moved() -> int:
        return placed - sets.where(HOT).get(SLOW, 0) * PAGE

    inside.within(lambda: moved() >= ARRIVED_SHARE * placed, MOVES_S_MAX)
    # The statistics lag, because the kernel updates them only now and then.
    inside.within(lambda: told(PROMOTED) >= moved(), MOVES_S_MAX)
    facts = {"placed": placed, "moved": moved(), "told": told(PROMOTED)}
    return facts | {"told_down": told(DEMOTED), "migrated": inside.migrated_bytes()}


def told(name: str) -> float:
    """Return the sum of a counter over all schemes."""
    return sum(value for metric, value in metrics().items() if metric.startswith(f"{name}{{"))


def standing() -> dict[str, Any]:
    return {
        "active": shown("ActiveState"),
        "restarts": int(shown("NRestarts")),
        "pids": inside.pids(),
        "status": inside.status().get("state"),
        "reason": inside.status().get("reason"),
        "metrics": metrics(),
        "resident": resident_bytes(),
    }


def niceness() -> list[int]:
    """Return that of each kdamond."""
    return [os.getpriority(os.PRIO_PROCESS, pid) for pid in inside.pids()]


def resident_bytes() -> int:
    """Return the resident set of the service, with Debian's own Python."""
    pages = Path(f"/proc/{shown('MainPID')}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def comes_back(restarts: int) -> dict[str, Any]:
    """Wait until systemd has restarted tierd. Return its state then."""
    wait_for("a restart", lambda: int(shown("NRestarts")) > restarts, RESTART_S_MAX)
    wait_for("tierd to be active", lambda: shown("ActiveState") == "active", RESTART_S_MAX)
    return standing()


def life(facts: dict[str, Any], sets: WorkloadSets) -> None:
    """Start, reload, kill, freeze, upgrade and stop the service."""
    facts["start"] = systemctl("enable", "--now", "tierd").returncode
    facts["started"] = standing()
    facts["niceness"] = niceness()
    facts["status_text"] = shown("StatusText")
    note("started")
    facts["promoted"] = promoted(sets)
    note(f"promoted {facts['promoted']}")
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
    facts["upgrade"] = apt("install", UPGRADE)
    facts["after_upgrade"] = standing()
    facts["stop"] = systemctl("stop", "tierd").returncode
    facts["stopped"] = [shown("ActiveState"), shown("Result")]
    facts["left_by_stop"] = inside.neighbourhood()
    note("stopped")


def gives_up(facts: dict[str, Any]) -> None:
    """Start with a bad configuration: systemd does not try again, and nothing is left behind."""
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
    sets = inside.begin()
    sets.place(HOT, SLOW, 24 * inside.MIB, only=True)
    sets.heat(HOT, 60.0)
    facts: dict[str, Any] = {"neighbourhood": inside.neighbourhood()}
    try:
        install(facts)
        life(facts, sets)
        gives_up(facts)
        facts["probe"] = probe()
        purge(facts)
        found = run(
            ["journalctl", "-u", "tierd", "TIERD_EVENT=running", "-o", "json"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        facts["journal"] = [json.loads(line) for line in found.splitlines()]
        facts["parked"] = run(
            ["journalctl", "-u", "tierd", "-o", "cat", "--grep", "^kdamonds with parked quotas"],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    finally:
        logged = run(["journalctl", "-u", "tierd", "-u", "probe", "--no-pager", "-o", "cat"],
                     capture_output=True, text=True, check=False)  # fmt: skip
        inside.LOG.write_text(logged.stdout)
        sys.stderr.write(logged.stdout)
    sets.close()
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
