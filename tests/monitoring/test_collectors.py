"""What ships for other collectors, read by the code that will read it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.needed import needed
from tests.prometheus import programs
from tests.vm import cache, unpacked
from tests.vm.errors import VmError
from tests.vm.rootfs import NEWER_SUITE
from tierd.configuration.config import Config
from tierd.console import shipped

pytestmark = pytest.mark.thorough

METRICS_URL = f"http://{Config().metrics_address}/metrics".replace("127.0.0.1", "localhost")

# Loads the profile alone and with some of TuneD's own. Prints what its plugins would get.
TUNED = """\
import json, sys
sys.path.insert(0, sys.argv[1] + "/usr/lib/python3/dist-packages")
import tuned.logs
from tuned import consts, profiles
from tuned.profiles import Factory, Loader, Locator, Merger
from tuned.profiles.variables import Variables
from tuned.plugins.plugin_service import ServicePlugin
own = sys.argv[1] + "/usr/lib/tuned/profiles"
loader = Loader(Locator([own, sys.argv[2]]), Factory(), Merger(), None, Variables())
found = {}
for name in ["", *sys.argv[3:]]:
    units = loader.load([*([name] if name else []), "tierd"]).units
    found[name] = {unit.name: dict(unit.options) for unit in units.values()}
service = ServicePlugin._parse_service_options
told = service(ServicePlugin.__new__(ServicePlugin), "tierd", found[""]["service"]["service.tierd"])
print(json.dumps({"profiles": found, "service": [told.start, told.enable]}))
"""


def test_the_receiver_scrapes_what_tierd_serves(tmp_path: Path) -> None:
    snippet = yaml.safe_load(shipped.text("otel-collector"))
    config = snippet["receivers"]["prometheus/tierd"]["config"]
    assert config["scrape_configs"][0]["static_configs"][0]["targets"] == ["localhost:19100"]
    # The receiver's `config` is a configuration of Prometheus.
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    argv = [str(programs().promtool), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pcp_gets_the_address_that_tierd_serves() -> None:
    """The file is one line: what pmdaopenmetrics(1) fetches."""
    assert shipped.text("pcp") == f"{METRICS_URL}\n"


# Profiles of TuneD that need no file of their own. Some of them set kernel.numa_balancing.
BESIDE = ("balanced", "hpc-compute", "sap-hana", "throughput-performance", "virtual-guest")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what TuneD of Debian 13 makes of the profile."""
    try:
        tree = cache.made("tuned", lambda into: unpacked.fetch("tuned", NEWER_SUITE, into))
    except VmError as error:
        needed(f"no TuneD: {error}")
        raise
    place = tmp_path_factory.mktemp("profiles")
    (place / "tierd").mkdir()
    (place / "tierd/tuned.conf").write_text(shipped.text("tuned"))
    python = unpacked.argv(tree, str(next((tree / "usr/bin").glob("python3.*")).relative_to(tree)))
    done = subprocess.run(
        [*python, "-B", "-c", TUNED, str(tree), str(place), *BESIDE],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONHOME": str(tree / "usr"), "PATH": "/usr/bin:/bin"},
        cwd=place,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_tuned_starts_and_enables_the_service(tuned: Any) -> None:
    assert tuned["service"] == [True, True]


def test_it_can_be_used_beside_a_profile_and_leaves_numa_balancing_alone(tuned: Any) -> None:
    assert set(tuned["profiles"]) == {"", *BESIDE}
    for name, units in tuned["profiles"].items():
        assert units["service"]["service.tierd"] == "start,enable", name
        assert "kernel.numa_balancing" not in units["sysctl"], name
