"""Metrics as text for Prometheus: for its scrapes, and for a file that node_exporter reads.

The only module that imports prometheus_client, which takes 50 ms and some MiB: for the daemon.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tierd.record.rundir import FileError
from tierd.serving.metrics import METRICS, Kind, Seen

# The oldest format is read by every Prometheus, and by node_exporter.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Whoever runs node_exporter is not root, whatever our umask.
TEXTFILE_MODE = 0o644

See = Callable[[], Seen | None]
"""What there is to tell now; None before the first round of the loop."""


@dataclass(frozen=True, slots=True)
class SeenCollector(Collector):
    """Hands out what was seen last; makes nobody look."""

    see: See

    def collect(self) -> Iterator[Metric]:
        seen = self.see()
        if seen is None:
            return
        for one in METRICS:
            family = (
                CounterMetricFamily(one.full_name, one.doc, labels=one.labels)
                if one.kind is Kind.counter
                else GaugeMetricFamily(one.full_name, one.doc, labels=one.labels)
            )
            for labels, value in one.values(seen):
                family.add_metric(labels, float(value))
            yield family


def registry(see: See, *, process: bool) -> CollectorRegistry:
    """A registry of our metrics alone; `process` adds what this process itself costs.

    A textfile must not have the latter: node_exporter tells its own by the same names.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(SeenCollector(see))
    if process:
        ProcessCollector(registry=made)
    return made


def text(from_registry: CollectorRegistry) -> bytes:
    """All of it, in the text format."""
    return generate_latest(from_registry)


def write_textfile(path: Path, content: bytes) -> None:
    """Replace the file in one step: node_exporter sees the old one or the new one.

    It says what is now, and is made anew at the next boot, so nothing waits for the disk.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.chmod(TEXTFILE_MODE)
        aside.replace(path)
    except OSError as error:
        raise FileError(
            f"cannot write {path}: {error.strerror}",
            "its folder must exist and be writable; a unit needs ReadWritePaths= for it",
        ) from error


def remove_textfile(path: Path) -> None:
    """Numbers of a daemon that is gone would stand still and look alive."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {path}: {error.strerror}", "remove it") from error
