"""The commands of a kdamond's `state` file, and the results that they write into the other files.

Everything here runs under damon_sysfs_lock. A command holds the lock until it has finished.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from errno import EBUSY, ECANCELED, EINVAL

from tierd.frozen import dataclass
from tierd.sim.context_builder import (
    Lookup,
    build,
    build_goals,
    check_commit,
    check_start,
    targets_after,
)
from tierd.sim.context_spec import ContextSpec
from tierd.sim.damon_directory import (
    assign,
    clear_numbered,
    count,
    create,
    objects,
    staged,
)
from tierd.sim.damon_lock import DamonLock
from tierd.sim.file_tree import ROOT_READ_ONLY, ROOT_READ_WRITE, Directory, Live, Oops, Refused
from tierd.sim.kdamond import Kdamond
from tierd.sim.kdamond_threads import KdamondThreads
from tierd.sim.kernel_series import KernelSeries
from tierd.sim.kstrto import keyword
from tierd.sim.quirks import BadCommit, Serves
from tierd.sim.scheduler import Outcome, Request, Scheduler
from tierd.sim.tried_regions import TriedRegionFiles

_STATS = (
    "nr_tried",
    "sz_tried",
    "nr_applied",
    "sz_applied",
    "sz_ops_filter_passed",
    "qt_exceeds",
    "nr_snapshots",
)


@dataclass(frozen=True, slots=True)
class KernelParts:
    """The parts of the kernel that the commands use."""

    series: KernelSeries
    scheduler: Scheduler
    threads: KdamondThreads
    lookup: Lookup
    lock: DamonLock


class KdamondDirectory:
    """One numbered directory below kdamonds/, and its thread if it has one."""

    def __init__(self, kernel: KernelParts) -> None:
        self._kernel = kernel
        self._thread: Kdamond | None = None
        self._nr_targets = 0
        # The requests that stay registered with an ended thread: False is a call, True a walk.
        self._left: set[bool] = set()
        self._tried = TriedRegionFiles(kernel.series.sysfs_quirks)
        self.started_us = 0
        self.next_refresh_us = 0
        child = kernel.series.template.child
        assert child is not None
        self.folder = create(child, kernel.lock)
        self.folder.put("state", Live(self._state, self._command, ROOT_READ_WRITE))
        self.folder.put("pid", Live(self._pid, mode=ROOT_READ_ONLY))

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.alive

    @property
    def refresh_us(self) -> int:
        """The microseconds between refreshes of the files without a command; 0 means never."""
        return int(staged(self.folder, "refresh_ms", 0)) * 1000 if self.running else 0

    @property
    def pid(self) -> int | None:
        """The pid of the thread; None when it is off."""
        return self._thread.pid if self._thread is not None and self._thread.alive else None

    @property
    def cpu_us(self) -> int:
        """The processor time of the thread."""
        return self._thread.cpu_us if self._thread is not None else 0

    @property
    def effective_bytes(self) -> tuple[int, ...]:
        """The quota in force of each scheme, in bytes. After the thread ended, its last ones."""
        return self._thread.effective_bytes() if self._thread is not None else ()

    def end(self) -> None:
        """End the thread, as if it had stopped by itself."""
        if self._thread is not None:
            self._kernel.scheduler.stop(self._thread)

    def refresh(self) -> None:
        """Update the files without a command (damon_sysfs_repeat_call_fn())."""
        if self._context() is not None and not self._kernel.lock.held:
            self._update_tuned()
            self._update_stats()
            self._update_effective()

    def _state(self) -> str:
        self._kernel.lock.require()
        return "on" if self.running else "off"

    def _pid(self) -> str:
        self._kernel.lock.require()
        return str(-1 if self.pid is None else self.pid)

    def _command(self, text: str) -> None:
        self._kernel.lock.require()
        word = keyword(text, self._kernel.series.commands)
        if word == "off":
            self._off()
            return
        context = self._context()
        if context is None:
            self._without_context(word)
            return
        match word:
            case "on":
                self._on(context)
            case "clear_schemes_tried_regions":
                if not self._kernel.series.sysfs_quirks.clears_always:
                    self._alive()
                self._clear(context)
            case "commit":
                self._commit(context)
            case "commit_schemes_quota_goals":
                self._commit_goals(context)
            case _:
                self._update(Request(word), context)

    def _without_context(self, word: str) -> None:
        """Answer a command while nr_contexts is 0."""
        checked = self._kernel.series.sysfs_quirks.checks_context or word == "on"
        if not checked and word == "clear_schemes_tried_regions":
            raise Oops(f"{word} without a context: NULL dereference in state_store()")
        if not checked:
            self._alive(walks="tried" in word)
            if not word.startswith("commit"):
                raise Oops(f"{word} without a context: NULL dereference in the kdamond")
        raise Refused(EINVAL)

    def _context(self) -> Directory | None:
        """Return the context; None if there is none."""
        contexts = objects(self.folder.directory("contexts"))
        return contexts[0] if contexts else None

    def _on(self, context: Directory) -> None:
        """Start the thread (damon_sysfs_turn_damon_on())."""
        kernel = self._kernel
        if self.running or kernel.lock.pending:
            raise Refused(EBUSY)
        self._thread = None
        self._left.clear()
        spec = build(context, kernel.series, kernel.lookup)
        check_start(spec, kernel.series, kernel.lookup.page_bytes)
        pid = kernel.threads.start()
        self._thread = kernel.scheduler.start(spec, pid)
        self._nr_targets = targets_after(spec)
        self.started_us = kernel.scheduler.now_us
        self.next_refresh_us = self.started_us + self.refresh_us

    def _off(self) -> None:
        """Stop the thread (damon_sysfs_turn_damon_off())."""
        if self._thread is None:
            raise Refused(EINVAL)
        if not self._thread.alive:
            if self._kernel.series.sysfs_quirks.off_when_ended:
                raise Refused(self._kernel.series.sysfs_quirks.off_when_ended)
            return
        self._kernel.scheduler.stop(self._thread)

    def _alive(self, *, walks: bool = False) -> Kdamond:
        """Return the running thread, or refuse the command if there is none."""
        sysfs_quirks = self._kernel.series.sysfs_quirks
        if self._thread is None:
            raise Refused(EINVAL)
        if not self._thread.alive:
            if walks in self._left:
                raise Refused(EBUSY)
            if sysfs_quirks.leaves_walk if walks else sysfs_quirks.leaves_call:
                self._left.add(walks)
            raise Refused(sysfs_quirks.command_when_ended)
        return self._thread

    def _commit(self, context: Directory) -> None:
        kernel = self._kernel
        thread = self._alive()
        spec: ContextSpec | None = None
        code = 0
        with self._waiting():
            try:
                spec = build(context, kernel.series, kernel.lookup)
                check_commit(spec, kernel.series, kernel.lookup.page_bytes, self._nr_targets)
            except Refused as refused:
                spec, code = None, refused.code
            outcome = kernel.scheduler.serve(thread, Request.commit, spec)
        if outcome is Outcome.done and spec is not None:
            self._nr_targets = targets_after(spec)
        self._conclude(outcome, code)

    def _commit_goals(self, context: Directory) -> None:
        kernel = self._kernel
        thread = self._alive()
        spec: ContextSpec | None = None
        code = 0
        with self._waiting():
            try:
                spec = build_goals(context, kernel.lookup)
            except Refused as refused:
                code = refused.code
            outcome = kernel.scheduler.serve(thread, Request.commit_goals, spec)
        self._conclude(outcome, code)

    def _waiting(self, *, walks: bool = False) -> AbstractContextManager[None]:
        polls = self._kernel.series.kdamond_quirks.serves is Serves.callback
        return self._kernel.lock.waiting(released=polls and not walks)

    def _conclude(self, outcome: Outcome, code: int) -> None:
        """Raise the error that the writer of a commit gets, if there is one."""
        sysfs_quirks = self._kernel.series.sysfs_quirks
        if outcome is Outcome.failed and sysfs_quirks.bad_commit is BadCommit.refused:
            raise Refused(code)
        self._check_served(outcome)

    def _check_served(self, outcome: Outcome) -> None:
        # The older kernels poll until their request is gone, and do not check why it is gone.
        sysfs_quirks = self._kernel.series.sysfs_quirks
        if outcome is Outcome.cancelled and sysfs_quirks.bad_commit is not BadCommit.ends_kdamond:
            raise Refused(ECANCELED)

    def _update(self, request: Request, context: Directory) -> None:
        walks = request in (Request.tried_regions, Request.tried_bytes)
        if walks and self._thread is not None and self._kernel.series.sysfs_quirks.clears_always:
            self._clear(context)
        thread = self._alive(walks=walks)
        with self._waiting(walks=walks):
            if walks:
                self._clear(context)
            outcome = self._kernel.scheduler.serve(thread, request, served=self._shows(request))
        self._check_served(outcome)

    def _shows(self, request: Request) -> Callable[[], None]:
        """Return the function that updates the files of a request."""
        match request:
            case Request.stats:
                return self._update_stats
            case Request.effective:
                return self._update_effective
            case Request.tuned:
                return self._update_tuned
            case Request.tried_regions:
                return self._show_regions
            case Request.tried_bytes:
                return self._show_bytes
            case _:
                raise ValueError(f"{request} updates nothing")

    def _update_stats(self) -> None:
        """Write the counters into the files (damon_sysfs_schemes_update_stats())."""
        if self._thread is None:
            return
        for scheme, stats in zip(self._schemes(), self._thread.stats(), strict=False):
            for name in _STATS:
                assign(scheme, f"stats/{name}", getattr(stats, name))

    def _update_effective(self) -> None:
        """Write the quotas in force into the files (damos_sysfs_update_effective_quotas())."""
        if self._thread is None:
            return
        for scheme, quota in zip(self._schemes(), self._thread.effective_bytes(), strict=False):
            assign(scheme, "quotas/effective_bytes", quota)

    def _update_tuned(self) -> None:
        """Write the tuned intervals over the staged ones (damon_sysfs_upd_tuned_intervals())."""
        context = self._context()
        if self._thread is None or context is None:
            return
        sample_us, aggr_us = self._thread.tuned_intervals()
        assign(context, "monitoring_attrs/intervals/sample_us", sample_us)
        assign(context, "monitoring_attrs/intervals/aggr_us", aggr_us)

    def _schemes(self) -> list[Directory]:
        context = self._context()
        return [] if context is None else objects(context.directory("schemes"))

    def _clear(self, context: Directory) -> None:
        self._tried.clear(objects(context.directory("schemes")))

    def _show_bytes(self) -> None:
        if self._thread is not None:
            self._tried.show_bytes(self._schemes(), self._thread.tried_bytes())

    def _show_regions(self) -> None:
        if self._thread is not None:
            self._show_bytes()
            nr_probes = len(self._thread.spec.probes)
            self._tried.show_regions(self._schemes(), self._thread.tried_regions(), nr_probes)


class KdamondsDirectory:
    """The kdamonds/ directory. A write to nr_kdamonds replaces the kdamonds of all users."""

    mode = ROOT_READ_WRITE

    def __init__(self, kernel: KernelParts) -> None:
        self._kernel = kernel
        self.folder = Directory()
        self.folder.entries["nr_kdamonds"] = self
        self.items: list[KdamondDirectory] = []

    def read(self) -> str:
        return str(len(self.items))

    def write(self, text: str) -> None:
        """Create this many kdamonds instead of the old ones (damon_sysfs_kdamonds_add_dirs())."""
        nr = count(text)
        self._kernel.lock.require()
        if self.running:
            raise Refused(EBUSY)
        clear_numbered(self.folder)
        self.items = [KdamondDirectory(self._kernel) for _ in range(nr)]
        for index, known in enumerate(self.items):
            self.folder.entries[str(index)] = known.folder

    @property
    def running(self) -> list[KdamondDirectory]:
        return [known for known in self.items if known.running]

    def pids(self) -> set[int]:
        """Return the pids of all running threads."""
        return {known.pid for known in self.items if known.pid is not None}

    def cpu_us(self, pid: int) -> int | None:
        """Return the processor time of a thread; None if it is none of these."""
        return next((one.cpu_us for one in self.items if one.pid == pid), None)
