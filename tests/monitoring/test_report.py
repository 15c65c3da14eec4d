"""The socket for systemd, asked by systemd's own programs, unpacked from Debian's packages."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.snapshots import SNAPSHOT
from tests.needed import needed
from tests.systemd import newer
from tests.vm import cache, unpacked
from tests.vm.errors import VmError
from tierd.record.daemon_counts import DaemonCounts
from tierd.serving import varlink
from tierd.serving.metrics import Seen
from tierd.serving.metrics_output import REPORTS, MetricsOutput

pytestmark = pytest.mark.thorough

# Shows a program the directory in $0 as /run/systemd/report. Only the program sees that.
WITH_REPORTS = """\
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/report && mount --bind "$0" /run/systemd/report
exec "$@"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a directory of reports with the socket of a tierd at work."""
    (tmp_path / REPORTS).mkdir(parents=True)
    output = MetricsOutput(DaemonCounts(), lambda _tally: True)
    output.start_report(tmp_path)
    output.publish(SNAPSHOT)
    yield tmp_path / REPORTS
    output.stop()


def lines(argv: tuple[str, ...], folder: Path) -> list[Any]:
    """Return the JSON lines that a program prints which sees the directory of reports."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", WITH_REPORTS]
    if subprocess.run([*words[:4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount namespace is not permitted here")
    done = subprocess.run(
        [*words, str(folder), *argv], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    # A stream of JSON texts has a record separator before each (RFC 7464).
    return [json.loads(text) for text in re.split(r"[\x1e\n]+", done.stdout) if text]


def told() -> list[Any]:
    return list(varlink.listed(Seen(SNAPSHOT, DaemonCounts(succeeded_at=SNAPSHOT.at))))


def test_varlinkctl_reads_all_of_it(folder: Path) -> None:
    varlinkctl = needed(newer("usr/bin/varlinkctl"))
    place = f"/run/systemd/report/{varlink.NAME}"
    more = (*varlinkctl, "--more", "--json=short", "call", place)
    assert lines((*more, "io.systemd.Metrics.List", "{}"), folder) == told()
    described = lines((*more, "io.systemd.Metrics.Describe", "{}"), folder)
    assert described == list(varlink.described())


def test_varlinkctl_understands_the_description(folder: Path) -> None:
    varlinkctl = needed(newer("usr/bin/varlinkctl"))
    done = subprocess.run(
        [*varlinkctl, "introspect", str(folder / varlink.NAME)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # It prints what it has parsed, not what it was sent.
    assert "method List() -> (\n\tname: string,\n\tvalue: object," in done.stdout


@pytest.mark.rare
def test_systemd_report_lists_it(folder: Path) -> None:
    """Only the newest Debian has it. Where the mirror has no valid lists of it, this is skipped."""
    try:
        tree = cache.made(
            "systemd-report", lambda into: unpacked.fetch("systemd-report", "sid", into)
        )
    except VmError as error:
        pytest.skip(f"no systemd-report: {error}")
    report = unpacked.argv(tree, "usr/lib/systemd/systemd-report")
    (found,) = lines((*report, "metrics", "--json=short", varlink.NAME), folder)
    names = {one["name"] for one in found}
    assert names == {one["name"] for one in told()}
