"""Tells the world in numbers what the loop does: keeps the tally, serves it, writes the textfile.

The loop hands over what happened and goes on: nobody who reads waits for it, and what cannot be
told (a port that is taken, a folder that is missing) is said once and changes nothing else.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from tierd import __version__
from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.record import tally
from tierd.record.snapshot import EventStatus, Snapshot, State
from tierd.record.tally import Tally
from tierd.serving import exposition, tls, webserver
from tierd.serving.metrics import Seen
from tierd.serving.webserver import Page, WebServer

# node_exporter is scraped every 15 s or less often.
TEXTFILE_S = 10.0

WELL = (State.active, State.observing, State.paused)

LANDING = f"""<!doctype html><title>tierd</title>
<h1>tierd {__version__}</h1>
<p>Keeps hot memory on fast nodes and cold memory on slow ones.</p>
<p><a href="/metrics">Metrics</a></p>
""".encode()

log = logging.getLogger("tierd")


@dataclass(slots=True)
class Reporter:
    """All that is told in numbers; `seen` is replaced whole, so readers need no lock."""

    tally: Tally
    keep: Callable[[Tally], None]
    """Puts a tally on disk."""
    seen: Seen | None = None
    _kept: Tally | None = None
    _server: WebServer | None = None
    _textfile: Path | None = None
    _plain: CollectorRegistry | None = None
    _textfile_at: float = float("-inf")
    _told: str = ""

    def start(self, config: Config) -> None:
        """Serve and write as the config says."""
        if config.metrics_textfile is not None:
            self._textfile = Path(config.metrics_textfile)
            self._plain = exposition.registry(lambda: self.seen, process=False)
        if config.metrics_address is not None:
            try:
                self._server = _serve(config, config.metrics_address, lambda: self.seen)
            except TierdError as error:
                self._tell(error)

    def stop(self) -> None:
        """Say no more, and keep what was counted."""
        self._keep()
        if self._server is not None:
            self._server.stop()
        if self._textfile is not None:
            try:
                exposition.remove_textfile(self._textfile)
            except TierdError as error:
                self._tell(error)

    def happened(self, event: EventStatus) -> None:
        """Count an event."""
        self.tally = tally.happened(self.tally, event.event, event.at)

    def refused(self, errno_name: str) -> None:
        """Count a write that the kernel refused."""
        self.tally = tally.refused(self.tally, errno_name)

    def publish(self, snapshot: Snapshot) -> None:
        """A round of the loop is over."""
        if snapshot.state in WELL:
            self.tally = tally.succeeded(self.tally, snapshot.at)
        # On disk first: a counter that somebody has seen must not go back.
        self._keep()
        self.seen = Seen(snapshot, self.tally)
        if self._textfile is None or self._plain is None:
            return
        if snapshot.at - self._textfile_at >= TEXTFILE_S:
            self._textfile_at = snapshot.at
            try:
                exposition.write_textfile(self._textfile, exposition.text(self._plain))
            except TierdError as error:
                self._tell(error)

    def _keep(self) -> None:
        """Once per change: that a round went well is no news."""
        news = replace(self.tally, succeeded_at=0.0)
        if news == self._kept:
            return
        self._kept = news
        try:
            self.keep(self.tally)
        except TierdError as error:
            self._tell(error)

    def _tell(self, error: TierdError) -> None:
        """Say it, but not at every round."""
        if str(error) != self._told:
            self._told = str(error)
            log.warning("metrics: %s. %s", error, error.hint)


def _serve(config: Config, address: str, see: exposition.See) -> WebServer:
    certificate = config.metrics_certificate
    context = None if certificate is None else tls.certificate(Path(certificate))
    registry = exposition.registry(see, process=True)

    def page(path: str) -> Page | None:
        if path == "/metrics":
            return Page(exposition.text(registry), exposition.CONTENT_TYPE)
        return Page(LANDING, "text/html; charset=utf-8") if path == "/" else None

    return webserver.serve(webserver.listen(address), page, context)
