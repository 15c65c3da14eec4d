"""Writes the metrics as text for Prometheus, which scrapes it, or for a file of node_exporter.

This is the only module that imports prometheus_client. tierd uses its modules for metrics,
registries and process figures, which are small. The package's `__init__` also imports an HTTP
server, an HTTP client and TLS. tierd does not need these, and they take 5 MiB of the 32 MiB that it
may use. So `__init__` is not run. The package's writer of the text format needs `__init__`, so this
module has a writer of its own.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tierd.frozen import dataclass
from tierd.record.rundir import FileError, save_bytes
from tierd.serving.metrics import METRICS, MetricType, Seen


@contextmanager
def _without_its_start(package: str) -> Iterator[None]:
    """Return a context in which modules of the package are imported without its `__init__`.

    Afterwards the package can still be imported as a whole.
    """
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    if spec is None:
        yield
        return
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]


with _without_its_start("prometheus_client"):
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.process_collector import ProcessCollector
    from prometheus_client.registry import Collector, CollectorRegistry

# The oldest version of the format: every Prometheus and node_exporter can read it.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# node_exporter does not run as root, so everybody may read the file, whatever the umask is.
TEXTFILE_MODE = 0o644

See = Callable[[], Seen | None]
"""Returns the last snapshot and counts; None before the first tick of the loop."""


@dataclass(frozen=True, slots=True)
class SeenCollector(Collector):
    """Makes the metrics from the last snapshot, without reading the machine."""

    see: See

    def collect(self) -> Iterator[Metric]:
        seen = self.see()
        if seen is None:
            return
        for one in METRICS:
            family = (
                CounterMetricFamily(one.full_name, one.doc, labels=one.labels)
                if one.kind is MetricType.counter
                else GaugeMetricFamily(one.full_name, one.doc, labels=one.labels)
            )
            for labels, value in one.values(seen):
                family.add_metric(labels, float(value))
            yield family


def source(see: See, *, process: bool) -> Callable[[], bytes]:
    """Return a function that makes the text; `process` adds the figures of this process.

    A textfile must not have these figures: node_exporter has its own with the same names.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(SeenCollector(see))
    if process:
        ProcessCollector(registry=made)
    return lambda: "".join(_lines(made)).encode()


def _lines(registry: CollectorRegistry) -> Iterator[str]:
    """Return the lines of the text format, for gauges and counters."""
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == MetricType.counter else family.name
        about = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
        yield f"# HELP {name} {about}\n# TYPE {name} {family.type}\n"
        for sample in family.samples:
            labels = ",".join(
                f'{key}="{_quoted(value)}"' for key, value in sorted(sample.labels.items())
            )
            braces = f"{{{labels}}}" if labels else ""
            yield f"{sample.name}{braces} {sample.value!r}\n"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def write_textfile(path: Path, content: bytes) -> None:
    """Replace the file in one step, so that node_exporter sees the old one or the new one.

    The file is made again at the next boot, so this does not wait for the disk.
    """
    try:
        save_bytes(path, content, TEXTFILE_MODE, lasting=False)
    except FileError as error:
        error.hint = (
            "the folder must exist and be writable; in a systemd unit add it to ReadWritePaths="
        )
        raise


def remove_textfile(path: Path) -> None:
    """Remove the file: the figures of a daemon that has ended would look current."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {path}: {error.strerror}", "remove it") from error
