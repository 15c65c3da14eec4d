"""Publishes the metrics: writes the counts to disk, serves HTTP, and writes the textfile.

The loop hands over a snapshot and goes on; readers never wait for the loop. If metrics cannot be
published (the port is taken, the folder is missing), this is logged once and tiering goes on.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.frozen import replace
from tierd.record import daemon_counts
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.snapshot import EventStatus, Snapshot, State
from tierd.serving import api, metrics_text, webserver
from tierd.serving.metrics import Seen
from tierd.serving.webserver import Page, Pages, WebServer

# How often the textfile is written. node_exporter is scraped every 15 s or less often.
TEXTFILE_S = 10.0

# `loop.tick` may be up to a minute; the rest is as long as the watchdog of the systemd unit waits.
LOOP_AGE_S_MAX = 120.0

WELL = (State.active, State.observing, State.paused)

# Where systemd looks for sockets that tell metrics, since 260. Without it nobody would ask.
REPORTS = Path("run/systemd/report")

log = logging.getLogger("tierd")


@dataclass(slots=True)
class MetricsOutput:
    """The counts, the web server and the textfile.

    `seen` is replaced as a whole, so readers need no lock.
    """

    tally: DaemonCounts
    keep: Callable[[DaemonCounts], bool]
    """Writes the counts to disk, and returns True if that worked."""
    failures: Callable[[], Iterable[str]] = tuple
    """Returns the names of tierd's own files that could not be written since the last call."""
    seen: Seen | None = None
    monotonic: Callable[[], float] = time.monotonic
    pages: Pages = field(default_factory=dict)
    """Further pages to serve beside those of this file."""
    url: str | None = None
    """Where the pages are served; None if they are not."""
    _published_s: float = field(init=False)
    """When the last tick of the loop ended; before the first tick, when this object was made."""
    _kept: DaemonCounts | None = None
    _server: WebServer | None = None
    _report: api.Server | None = None
    _textfile: Path | None = None
    _plain: Callable[[], bytes] | None = None
    _textfile_s: float = float("-inf")
    _told: str = ""

    def __post_init__(self) -> None:
        self._published_s = self.monotonic()

    def health(self) -> Page:
        """Return the page /healthz: it says if the loop runs, not if tiering goes well."""
        age_s = self.monotonic() - self._published_s
        if age_s <= LOOP_AGE_S_MAX:
            return Page(f"ok: the loop's last round was {age_s:.0f} s ago\n".encode())
        text = f"stuck: the loop's last round was {age_s:.0f} s ago, see `journalctl -u tierd`\n"
        return Page(text.encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    def readiness(self) -> Page:
        """Return the page /readyz: it says if the plan runs as tierd has verified it."""
        health = self.health()
        if health.status is not HTTPStatus.OK:
            return health
        seen = self.seen.snapshot if self.seen else None
        if seen is not None and seen.state in WELL:
            return Page(f"ready: {seen.state}\n".encode())
        why = f"{seen.state}: {seen.reason}" if seen else "starting: no round of the loop has ended"
        # A reason may name a cgroup, and names need not be UTF-8.
        text = f"not ready: {why}\n".encode("utf-8", "backslashreplace")
        return Page(text, status=HTTPStatus.SERVICE_UNAVAILABLE)

    def start(self, config: Config) -> None:
        """Start the server and the textfile that the config asks for."""
        if config.metrics_textfile is not None:
            self._textfile = Path(config.metrics_textfile)
            self._plain = metrics_text.source(lambda: self.seen, process=False)
        if config.metrics_address is not None:
            try:
                self._server = _serve(config, config.metrics_address, self)
                self.url = webserver.url(
                    config.metrics_address, tls=config.metrics_certificate is not None
                )
            except TierdError as error:
                self._tell(error)

    def start_report(self, root: Path) -> None:
        """Tell metrics to systemd too, if it collects them on this machine."""
        if not (root / REPORTS).is_dir():
            return
        # Most machines do not need it.
        from tierd.serving import varlink

        try:
            self._report = varlink.serve(root / REPORTS, lambda: self.seen)
        except TierdError as error:
            self._tell(error)

    def stop(self) -> None:
        """Stop the servers, remove the textfile, and write the counts to disk."""
        self._keep()
        if self._report is not None:
            self._report.stop()
        if self._server is not None:
            self._server.stop()
        if self._textfile is not None:
            try:
                metrics_text.remove_textfile(self._textfile)
            except TierdError as error:
                self._tell(error)

    def happened(self, event: EventStatus) -> None:
        """Count an event."""
        self.tally = daemon_counts.happened(self.tally, event.event, event.at)

    def refused(self, errno_name: str) -> None:
        """Count a write that the kernel refused."""
        self.tally = daemon_counts.refused(self.tally, errno_name)

    def publish(self, snapshot: Snapshot) -> None:
        """Publish the snapshot of a tick that has ended."""
        if snapshot.state in WELL:
            self.tally = daemon_counts.succeeded(self.tally, snapshot.at)
        # The counts are written first: a counter that was read must not go down after a crash.
        self._keep()
        self.seen = Seen(snapshot, self.tally)
        self._published_s = self.monotonic()
        if self._textfile is None or self._plain is None:
            return
        # The time of the snapshot is not used: if the clock is set back, no file would be written.
        now_s = self._published_s
        if now_s - self._textfile_s >= TEXTFILE_S:
            self._textfile_s = now_s
            try:
                metrics_text.write_textfile(self._textfile, self._plain())
            except TierdError as error:
                self._tell(error)

    def _keep(self) -> None:
        """Write the counts to disk if more has changed than the time of the last success."""
        for name in self.failures():
            self.tally = daemon_counts.lost(self.tally, name)
        news = replace(self.tally, succeeded_at=0.0)
        if news != self._kept and self.keep(self.tally):
            self._kept = news

    def _tell(self, error: TierdError) -> None:
        """Log an error, unless it is the same as the last one."""
        if str(error) != self._told:
            self._told = str(error)
            log.warning("metrics: %s; %s", error, error.hint)


def _serve(config: Config, address: str, metrics_output: MetricsOutput) -> WebServer:
    text = metrics_text.source(lambda: metrics_output.seen, process=True)

    pages = {
        **metrics_output.pages,
        "/metrics": lambda: Page(text(), metrics_text.CONTENT_TYPE),
        "/healthz": metrics_output.health,
        "/readyz": metrics_output.readiness,
    }
    return webserver.serve(webserver.listen(address), pages, _tls(config))


def _tls(config: Config) -> webserver.Tls | None:
    if config.metrics_certificate is None:
        return None
    from tierd.serving import tls

    return tls.certificate(Path(config.metrics_certificate))
