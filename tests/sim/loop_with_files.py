"""The real loop on the simulated kernel, with its real files: totals, history and saved state."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.sim.loop import Loop
from tierd.errors import ExitCode
from tierd.loop import daemon
from tierd.loop.outside import Outside
from tierd.loop.running import Running
from tierd.loop.store import FileStore
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.metrics import METRICS, MetricType, Seen
from tierd.serving.metrics_output import MetricsOutput

Counted = dict[tuple[str, ...], float]


@dataclass
class Keeper:
    """A daemon as `tierd run` puts it together, without a socket and without metrics' server."""

    loop: Loop
    folder: RunDir
    published: Callable[[], None] = lambda: None
    events: list[EventStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = FileStore(self.folder, "this boot")
        self.metrics_output = MetricsOutput(
            self.store.tally(), self.store.save_tally, self.store.books.failures
        )
        self.chronicle = Chronicle(self.folder, self.store.books)

    def outside(self) -> Outside:
        return replace(
            self.loop.outside(),
            store=self.store,
            books=self.store.books,
            publish=self._publish,
            log=self._log,
        )

    def run(self, for_s: float) -> ExitCode:
        try:
            return daemon.run(self.outside(), self.loop.config, for_s)
        finally:
            self.metrics_output.stop()

    def texts(self, event: str) -> list[str]:
        return [one.text for one in self.events if one.event == event]

    def counted(self) -> Counted:
        """Return all of tierd's counters by name and labels."""
        seen = self.metrics_output.seen
        return {} if seen is None else counters(seen)

    def _publish(self, snapshot: Snapshot, _running: Running) -> None:
        self.loop.snapshots.append(snapshot)
        self.chronicle.saw(snapshot)
        self.metrics_output.publish(snapshot)
        self.published()

    def _log(self, event: EventStatus) -> None:
        self.events.append(event)
        self.chronicle.happened(event)
        self.metrics_output.happened(event)


def counters(seen: Seen) -> Counted:
    """Return the counters without the kernel's, which start at zero at each boot."""
    return {
        (metric.name, *labels): value
        for metric in METRICS
        if metric.kind is MetricType.counter and "vmstat" not in metric.name
        for labels, value in metric.values(seen)
    }
