"""`tierd report` with a time before, a command and a Prometheus: the figures are in each output."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import FAST, FRESH, SLOW
from tierd import cli
from tierd.console.report import SLICES
from tierd.record.snapshot import document
from tierd.serving import api
from tierd.serving.api import Sources

# Each slice has one look or two.
BRIEF = "report --for 100ms"


@dataclass
class Told:
    """What a report said, as it was asked to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def difference(self, measure: str) -> dict[str, Any]:
        (found,) = (one for one in self.document["differences"] if one["measure"] == measure)
        return dict(found)


@dataclass
class Scene:
    """A machine, a daemon's directory, and the command line."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def report(self, *words: str) -> Told:
        where = ["--root", str(self.folder / "root"), "--run-dir", str(self.folder)]
        code = cli.main([*BRIEF.split(), *words, *where])
        captured = self.capsys.readouterr()
        return Told(code, captured.out, captured.err)

    @property
    def page(self) -> Path:
        return self.folder / "report.html"

    def row_of_page(self, title: str) -> list[str]:
        """Return the cells of a row of the page's table."""
        rows = re.findall(r"<tr>(.*?)</tr>", self.page.read_text(), re.DOTALL)
        cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows)
        (found,) = (one for one in cells if one[0].startswith(title))
        return list(found)


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path / "root")
    return Scene(tmp_path, capsys)


def row_of_text(told: Told, title: str) -> str:
    (found,) = (line for line in told.out.splitlines() if line.startswith(title))
    return found


# The title of the application's figure in the page, and in a terminal.
OWN = "the application&#x27;s own figure", "the application's own figure"


def earlier(values: list[float], key: str, arm: str = "on", method: str = "one") -> str:
    slices = [{"arm": arm, "seconds": 60.0, "values": {key: value}} for value in values]
    return json.dumps(
        {
            "schema": "tierd.report/1",
            "about": "",
            "method": method,
            "differences": [],
            "slices": slices,
        }
    )


def test_what_a_report_saves_is_the_time_before_of_the_next_one(scene: Scene) -> None:
    before, after = scene.folder / "before.json", scene.folder / "after.json"
    first = scene.report("--command", "echo 100 per second: 100", "--save", str(before))
    assert first.code == 0, first.err
    words = ("--command", "echo 150", "--before", str(before), "--html", str(scene.page))
    second = scene.report(*words, "--save", str(after), "--json")
    assert second.document["method"] == "before-after"
    own = second.difference("application")
    assert (own["off"], own["on"], own["difference"]) == (100, 150, 50)
    assert (own["low"], own["high"], own["verdict"]) == (50, 50, "better")
    # What did not change is told too.
    assert second.difference("pressure")["verdict"] == "no difference"
    arms = [one["arm"] for one in second.document["slices"]]
    assert arms == ["off"] * SLICES + ["on"] * SLICES
    assert scene.row_of_page(OWN[0])[1:] == [
        "100.00",
        "150.00",
        "+50.00 (+50.00 to +50.00)",
        "better",
    ]
    page = scene.page.read_text()
    assert f"{SLICES} slices before and {SLICES} after" in page
    heights = {
        arm: set(re.findall(rf'<rect class="{arm}".*?height="([0-9.]+)"', page.split("<h2>")[1]))
        for arm in ("off", "on")
    }
    (low,), (high,) = heights["off"], heights["on"]
    assert float(low) / float(high) == pytest.approx(100 / 150, abs=0.01)
    # The later time of a report that compares two is the time before of the next one.
    third = scene.report("--command", "echo 120", "--before", str(after), "--better", "lower")
    row = row_of_text(third, OWN[1])
    assert re.search(r" 150\.00 +120\.00 +-30\.00 \(-30\.00 to -30\.00\) +better$", row)


def test_the_interval_of_a_time_before_is_that_of_its_slices(scene: Scene) -> None:
    before = scene.folder / "before.json"
    before.write_text(earlier([90.0, 110.0] * 5, "application"))
    told = scene.report("--command", "echo 104", "--before", str(before), "--json")
    own = told.difference("application")
    # The variance of 90 and 110 five times each is 1000/9; Student's t of nine degrees is 2.26.
    half = 2.26 * (1000 / 9 / 10) ** 0.5
    assert own["difference"] == pytest.approx(4)
    assert own["low"] == pytest.approx(4 - half)
    assert own["high"] == pytest.approx(4 + half)
    assert own["verdict"] == "cannot tell: the values vary too much"


def test_the_share_that_a_running_tierd_serves_is_compared(scene: Scene) -> None:
    before = scene.folder / "before.json"
    before.write_text(earlier([60.0, 61.0, 59.0], "served"))
    nodes = (replace(FAST, heat_bytes=300), replace(SLOW, heat_bytes=100))
    status = json.dumps(document(replace(FRESH, nodes=nodes)))
    server = api.serve(
        scene.folder / "api.sock", Sources({"/v1/status": status}.get, lambda _event: False)
    )
    try:
        told = scene.report("--before", str(before), "--html", str(scene.page))
    finally:
        server.stop()
    row = row_of_text(told, "share served by the fast tier")
    assert re.search(r" 60\.00 +75\.00 +\+15\.00 \(\+12\.52 to \+17\.48\) +better$", row)
    assert scene.row_of_page("share served")[1:3] == ["60.00", "75.00"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (earlier([1.0] * 3, "served", method="turns"), "which are not one time"),
        (earlier([], "served"), "it has no slice"),
        (earlier([1.0], "served").replace("60.0", "1e999"), "no finite number"),
        (earlier([1.0], "served").replace("report/1", "report/2"), "expected 'tierd.report/1'"),
    ],
    ids=["turns", "empty", "endless", "another schema"],
)
def test_a_time_before_that_cannot_be_used_is_refused_before_anything_is_measured(
    scene: Scene, text: str, reason: str
) -> None:
    before = scene.folder / "before.json"
    before.write_text(text)
    ran = scene.folder / "ran"
    told = scene.report("--before", str(before), "--command", f"touch {ran}")
    assert (told.code, told.out) == (1, "")
    assert reason in told.err
    assert not ran.exists()


@pytest.mark.parametrize(
    ("printed", "number", "shown"),
    [
        ("ops/s: 1234.5", 1234.5, "1234.50"),
        ("7\n8\n9", 9, "9.00"),
        ("-0.25", -0.25, "-0.250"),
        # A latency in seconds.
        ("p99 0.0004213", 0.0004213, "0.000421"),
    ],
)
def test_the_last_number_that_a_command_prints_is_the_figure(
    scene: Scene, printed: str, number: float, shown: str
) -> None:
    (scene.folder / "printed").write_text(printed)
    words = ("--command", f"cat '{scene.folder}/printed'", "--html", str(scene.page))
    told = scene.report(*words)
    assert (told.code, told.err) == (0, "")
    assert re.search(rf" - +{re.escape(shown)} ", row_of_text(told, OWN[1]))
    assert scene.row_of_page(OWN[0])[2] == shown
    (own,) = (
        one
        for one in scene.report(*words, "--json").document["differences"]
        if one["measure"] == "application"
    )
    assert own["on"] == pytest.approx(number)
    assert own["off"] is None
    assert own["better"] == "higher"


def test_each_slice_asks_the_command_anew(scene: Scene) -> None:
    """The mean of a figure that rises lies between its first and its last value."""
    script = scene.folder / "figure"
    script.write_text(
        f"n=$(cat {scene.folder}/n 2>/dev/null || echo 0); echo $((n+1)) >{scene.folder}/n; echo $n"
    )
    told = scene.report("--command", f"sh {script}", "--json")
    asked = int((scene.folder / "n").read_text())
    values = [one["values"]["application"] for one in told.document["slices"]]
    assert len(values) == SLICES
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (pytest.approx(0, abs=1), pytest.approx(asked - 1, abs=1))
    assert told.difference("application")["on"] == pytest.approx(sum(values) / SLICES)


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("echo 'unended", 2, "No closing quotation"),
        ("false", 1, "false gave no number"),
        ("echo inf", 1, "no finite number"),
        ("/no/such/program", 1, "No such file"),
        ("", 1, "the command gave no number"),
    ],
)
def test_a_command_without_a_number_is_told(
    scene: Scene, command: str, code: int, reason: str
) -> None:
    told = scene.report("--command", command)
    assert (told.code, told.out) == (code, "")
    assert reason in told.err


# It has characters that mean something in an address.
QUERY = 'sum(rate(http_requests_total{job="web shop", code!~"5.."}[1m])) > 0 & 1 + 1'


@dataclass
class Prometheus:
    """A server that answers an instant query as Prometheus does."""

    body: bytes = b""
    asked: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    address: str = ""

    def answers(self, found: dict[str, Any]) -> None:
        self.body = json.dumps({"status": "success", "data": found}).encode()

    def vector(self, *values: str) -> None:
        series = [
            {"metric": {"instance": str(number)}, "value": [1.7e9, value]}
            for number, value in enumerate(values)
        ]
        self.answers({"resultType": "vector", "result": series})


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    made = Prometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # `path` has lost a slash where there were two.
            parts = urlsplit(f"{made.address}{self.requestline.split()[1]}")
            made.paths.add(parts.path)
            made.asked += parse_qs(parts.query, strict_parsing=True)["query"]
            if not made.body:
                self.wfile.write(b"SSH-2.0-other\r\n")
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, *_words: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        made.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def test_the_value_of_a_query_is_the_figure(scene: Scene, prometheus: Prometheus) -> None:
    before = scene.folder / "before.json"
    words = ("--prometheus", f"{prometheus.address}/", "--query", QUERY)
    prometheus.vector("4000")
    first = scene.report(*words, "--save", str(before))
    assert first.code == 0, first.err
    assert re.search(r" - +4000\.00 ", row_of_text(first, OWN[1]))
    prometheus.vector("3456.75")
    after = (*words, "--before", str(before), "--html", str(scene.page))
    told = scene.report(*after)
    assert prometheus.paths == {"/api/v1/query"}
    assert set(prometheus.asked) == {QUERY}
    assert len(prometheus.asked) >= 2 * SLICES
    difference = "-543.25 (-543.25 to -543.25)"
    row = row_of_text(told, OWN[1])
    assert re.split("  +", row)[1:] == ["4000.00", "3456.75", difference, "worse"]
    assert scene.row_of_page(OWN[0])[1:] == ["4000.00", "3456.75", difference, "worse"]
    own = scene.report(*after, "--json").difference("application")
    assert (own["off"], own["on"], own["difference"]) == (4000, 3456.75, -543.25)


def test_a_scalar_is_one_value_too(scene: Scene, prometheus: Prometheus) -> None:
    prometheus.answers({"resultType": "scalar", "result": [1.7e9, "17.5"]})
    told = scene.report("--prometheus", prometheus.address, "--query", "scalar(up)", "--json")
    assert told.difference("application")["on"] == 17.5


@pytest.mark.parametrize("values", [(), ("1", "2"), ("NaN",)], ids=["none", "two", "not a number"])
def test_a_query_with_another_number_of_values_is_refused(
    scene: Scene, prometheus: Prometheus, values: tuple[str, ...]
) -> None:
    prometheus.vector(*values)
    told = scene.report("--prometheus", prometheus.address, "--query", "up")
    assert (told.code, told.out) == (1, "")
    assert "the query must give one value" in told.err


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"[" * 60_000, b"{"], ids=["ssh", "list", "deep", "half"]
)
def test_a_server_that_is_no_prometheus_is_told(
    scene: Scene, prometheus: Prometheus, body: bytes
) -> None:
    prometheus.body = body
    told = scene.report("--prometheus", prometheus.address, "--query", "up")
    assert (told.code, told.out) == (1, "")
    assert "gave no number" in told.err


@pytest.mark.parametrize("words", [("--query", "up"), ("--prometheus", "http://127.0.0.1:9")])
def test_an_address_and_its_query_go_together(scene: Scene, words: tuple[str, ...]) -> None:
    told = scene.report(*words)
    assert (told.code, told.out) == (2, "")
    assert "go together" in told.err
