"""`tierd top` and `tierd why CGROUP`: who has memory on slow nodes. Neither needs the daemon.

Only these commands read the memory of processes: see `machine/process_memory.py`.
"""

import time
from collections.abc import Callable, Sequence

from tierd.clock import Clock
from tierd.configuration.config import REST, Config
from tierd.errors import NotRunning, TierdError
from tierd.frozen import dataclass
from tierd.machine import discovery, process_memory, processes, residents
from tierd.machine.residents import NOBODY, NoCgroup
from tierd.planning import groups_now, matches_here
from tierd.sysfs import Sysfs
from tierd.topology import Topology
from tierd.views import groupview, processview, statusview, whoview
from tierd.views.statusview import Status
from tierd.views.whoview import Document, Entry


@dataclass(frozen=True, slots=True)
class Source:
    """Where `tierd top` and `tierd why CGROUP` have their figures from."""

    sysfs: Sysfs
    config: Config
    ask: Callable[[], Status]
    """Returns the daemon's snapshot."""
    clock: Clock

    def entries(self) -> tuple[Entry, ...]:
        """Return the cgroups with memory, those with the most on slow nodes first."""
        topology = discovery.survey(self.sysfs, self.config.tiers)
        return tuple(whoview.entries(residents.read(self.sysfs), topology))

    def processes(self, within_s: float = process_memory.WITHIN_S) -> processview.Document:
        """Return the largest processes, those with the most in use on slow nodes first."""
        topology = discovery.survey(self.sysfs, self.config.tiers)
        return self.memory_of(processes.pids(self.sysfs), topology, within_s)

    def memory_of(
        self,
        pids: Sequence[int],
        topology: Topology,
        within_s: float = process_memory.WITHIN_S,
    ) -> processview.Document:
        """Return the largest of these processes."""
        read = process_memory.read(self.sysfs, pids, topology.page_bytes, self.clock, within_s)
        return processview.as_document(read, topology)

    def document(self, *, with_processes: bool) -> Document:
        """Return the JSON document of `tierd top`. If cgroups are not known, it says why."""
        topology = discovery.survey(self.sysfs, self.config.tiers)
        found, trouble = NOBODY, ""
        try:
            found = residents.read(self.sysfs)
        except NoCgroup as error:
            trouble = str(error)
        return {
            "schema": whoview.SCHEMA,
            "cgroups": whoview.entries(found, topology),
            "cgroups_trouble": trouble,
            "left_out": list(found.left_out),
            "processes": self.processes() if with_processes else None,
        }

    def text(self, columns: int, *, with_processes: bool) -> str:
        """Return one screen of `tierd top` as text, for a pipe."""
        try:
            status = self.ask()
        except NotRunning as error:
            head = statusview.wrapped(f"{error}; {error.hint}", columns)
        else:
            head = _head(status, columns)
        found = self.document(with_processes=with_processes)
        return "\n".join([*head, "", whoview.text(found, columns)])


def _head(status: Status, columns: int) -> list[str]:
    if "at" not in status:
        return ["the daemon is starting"]
    verdict = statusview.wrapped(statusview.verdict(status, time.time()), columns)
    bars = statusview.node_lines(status["nodes"], columns)
    return [*verdict, "", *bars, f"  {statusview.LEGEND}"]


def one(source: Source, path: str, columns: int) -> str:
    """Return where the memory of a cgroup is, what may move it, and whose it is."""
    path, sysfs = path.rstrip("/"), source.sysfs
    topology = discovery.survey(sysfs, source.config.tiers)
    found = residents.one(sysfs, path)
    members = residents.members(sysfs, path)
    said = [*_said(source, path), *(f"Left out: {one}." for one in members.left_out)]
    return whoview.one_text(
        found, source.memory_of(members.pids, topology), topology, said, columns
    )


def _said(source: Source, path: str) -> list[str]:
    said, config = [whoview.IN_USE], source.config
    if config.shares:
        return [*said, *_shared(source, path)]
    try:
        classes = matches_here(source.sysfs, config)
    except TierdError as error:
        return [*said, f"Which class it is in is not known: {error}."]
    if not classes:
        return [*said, "No cgroup class is configured: tierd may move the memory of all cgroups."]
    matches = [one for one in classes if path in one.cgroups]
    if not matches:
        return [*said, "It is in no cgroup class."]
    return [*said, *(f"It is in the cgroup class {one.name} ({one.mode})." for one in matches)]


def _shared(source: Source, path: str) -> list[str]:
    """Return what the daemon knows of the group of a cgroup."""
    try:
        groups = groups_now(source.sysfs, source.config)
    except TierdError as error:
        return [f"Which group it is in is not known: {error}."]
    name = next((one.name for one in groups if path in one.cgroups), REST)
    try:
        return groupview.sentences(name, source.ask().get("groups", ()))
    except NotRunning as error:
        return [f"It is in the group {name} (`shares`). What it has is not known: {error}."]
