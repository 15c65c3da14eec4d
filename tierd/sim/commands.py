"""A kdamond's directory come alive: the commands of `state`, and what they leave in the files.

Everything here is under damon_sysfs_lock, and a command holds it for as long as it takes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from errno import EBUSY, ECANCELED, EINVAL

from tierd.sim.admin import (
    assign,
    clear_numbered,
    count,
    create,
    objects,
    staged,
)
from tierd.sim.context import (
    World,
    build,
    build_goals,
    check_commit,
    check_start,
    targets_after,
)
from tierd.sim.engine import Engine, Outcome, Request
from tierd.sim.kdamond import Kdamond as Thread
from tierd.sim.kstrto import keyword
from tierd.sim.lock import Lock
from tierd.sim.profile import BadCommit, Profile
from tierd.sim.spec import ContextSpec, Serves
from tierd.sim.threads import Threads
from tierd.sim.tree import ROOT_READ_ONLY, ROOT_READ_WRITE, Directory, Live, Oops, Refused
from tierd.sim.tried import Tried

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
class Kernel:
    """What the commands need of the rest of the kernel."""

    profile: Profile
    engine: Engine
    threads: Threads
    world: World
    lock: Lock


class Kdamond:
    """One numbered directory below kdamonds/, and the thread it may have."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._thread: Thread | None = None
        self._nr_targets = 0
        # Requests that an ended thread was left with: a call (False), a walk (True).
        self._left: set[bool] = set()
        self._tried = Tried(kernel.profile.answers)
        self.started_us = 0
        self.next_refresh_us = 0
        child = kernel.profile.template.child
        assert child is not None
        self.folder = create(child, kernel.lock)
        self.folder.put("state", Live(self._state, self._command, ROOT_READ_WRITE))
        self.folder.put("pid", Live(self._pid, mode=ROOT_READ_ONLY))

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.alive

    @property
    def refresh_us(self) -> int:
        """How often the files are refreshed unasked; 0 is never."""
        return int(staged(self.folder, "refresh_ms", 0)) * 1000 if self.running else 0

    @property
    def pid(self) -> int | None:
        """The pid of its thread; None when off."""
        return self._thread.pid if self._thread is not None and self._thread.alive else None

    @property
    def effective_bytes(self) -> tuple[int, ...]:
        """Each scheme's quota as it is in force; none when off."""
        return self._thread.effective_bytes() if self._thread is not None else ()

    def end(self) -> None:
        """The thread ends by itself."""
        if self._thread is not None:
            self._kernel.engine.stop(self._thread)

    def refresh(self) -> None:
        """damon_sysfs_repeat_call_fn()."""
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
        word = keyword(text, self._kernel.profile.commands)
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
                self._clear_command(context)
            case "commit":
                self._commit(context)
            case "commit_schemes_quota_goals":
                self._commit_goals(context)
            case _:
                self._update(Request(word), context)

    def _without_context(self, word: str) -> None:
        """A command where nr_contexts is 0."""
        checked = self._kernel.profile.answers.checks_context or word == "on"
        if not checked and word == "clear_schemes_tried_regions":
            raise Oops(f"{word} without a context: NULL dereference in state_store()")
        if not checked:
            self._alive(walks="tried" in word)
            if not word.startswith("commit"):
                raise Oops(f"{word} without a context: NULL dereference in the kdamond")
        raise Refused(EINVAL)

    def _context(self) -> Directory | None:
        """The only context; None if there is none."""
        contexts = objects(self.folder.directory("contexts"))
        return contexts[0] if contexts else None

    def _on(self, context: Directory) -> None:
        """damon_sysfs_turn_damon_on()."""
        kernel = self._kernel
        if self.running or kernel.lock.pending:
            raise Refused(EBUSY)
        self._thread = None
        self._left.clear()
        spec = build(context, kernel.profile, kernel.world)
        check_start(spec, kernel.profile)
        pid = kernel.threads.start()
        self._thread = kernel.engine.start(spec, pid)
        self._nr_targets = targets_after(spec)
        self.started_us = kernel.engine.now_us
        self.next_refresh_us = self.started_us + self.refresh_us

    def _off(self) -> None:
        """damon_sysfs_turn_damon_off()."""
        if self._thread is None:
            raise Refused(EINVAL)
        if not self._thread.alive:
            if self._kernel.profile.answers.off_when_ended:
                raise Refused(self._kernel.profile.answers.off_when_ended)
            return
        self._kernel.engine.stop(self._thread)

    def _alive(self, *, walks: bool = False) -> Thread:
        """The thread that a command is for."""
        answers = self._kernel.profile.answers
        if self._thread is None:
            raise Refused(EINVAL)
        if not self._thread.alive:
            if walks in self._left:
                raise Refused(EBUSY)
            if answers.leaves_walk if walks else answers.leaves_call:
                self._left.add(walks)
            raise Refused(answers.command_when_ended)
        return self._thread

    def _commit(self, context: Directory) -> None:
        kernel = self._kernel
        thread = self._alive()
        spec: ContextSpec | None = None
        code = 0
        with self._waiting():
            try:
                spec = build(context, kernel.profile, kernel.world)
                check_commit(spec, kernel.profile, self._nr_targets)
            except Refused as refused:
                spec, code = None, refused.code
            outcome = kernel.engine.serve(thread, Request.commit, spec)
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
                spec = build_goals(context, kernel.world)
            except Refused as refused:
                code = refused.code
            outcome = kernel.engine.serve(thread, Request.commit_goals, spec)
        self._conclude(outcome, code)

    def _waiting(self, *, walks: bool = False) -> AbstractContextManager[None]:
        polls = self._kernel.profile.quirks.serves is Serves.callback
        return self._kernel.lock.waiting(released=polls and not walks)

    def _conclude(self, outcome: Outcome, code: int) -> None:
        """What the writer is told of a commit."""
        answers = self._kernel.profile.answers
        if outcome is Outcome.failed and answers.bad_commit is BadCommit.refused:
            raise Refused(code)
        self._check_served(outcome)

    def _check_served(self, outcome: Outcome) -> None:
        # The older kernels poll until their request is gone, and do not ask why it went.
        answers = self._kernel.profile.answers
        if outcome is Outcome.cancelled and answers.bad_commit is not BadCommit.ends_kdamond:
            raise Refused(ECANCELED)

    def _update(self, request: Request, context: Directory) -> None:
        walks = request in (Request.tried_regions, Request.tried_bytes)
        if walks and self._thread is not None and self._kernel.profile.answers.clears_always:
            self._clear(context)
        thread = self._alive(walks=walks)
        with self._waiting(walks=walks):
            if walks:
                self._clear(context)
            outcome = self._kernel.engine.serve(thread, request, served=self._shows(request))
        self._check_served(outcome)

    def _shows(self, request: Request) -> Callable[[], None]:
        """What updates the files that a request is about."""
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
        """damon_sysfs_schemes_update_stats()."""
        if self._thread is None:
            return
        for scheme, stats in zip(self._schemes(), self._thread.stats(), strict=False):
            for name in _STATS:
                assign(scheme, f"stats/{name}", getattr(stats, name))

    def _update_effective(self) -> None:
        """damos_sysfs_update_effective_quotas()."""
        if self._thread is None:
            return
        for scheme, quota in zip(self._schemes(), self._thread.effective_bytes(), strict=False):
            assign(scheme, "quotas/effective_bytes", quota)

    def _update_tuned(self) -> None:
        """damon_sysfs_upd_tuned_intervals(): over what the user has staged."""
        context = self._context()
        if self._thread is None or context is None:
            return
        sample_us, aggr_us = self._thread.tuned_intervals()
        assign(context, "monitoring_attrs/intervals/sample_us", sample_us)
        assign(context, "monitoring_attrs/intervals/aggr_us", aggr_us)

    def _schemes(self) -> list[Directory]:
        context = self._context()
        return [] if context is None else objects(context.directory("schemes"))

    def _clear_command(self, context: Directory) -> None:
        if not self._kernel.profile.answers.clears_always:
            self._alive()
        self._clear(context)

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


class Kdamonds:
    """The kdamonds/ directory: one array for everybody, made anew by each write of its number."""

    mode = ROOT_READ_WRITE

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.folder = Directory()
        self.folder.entries["nr_kdamonds"] = self
        self.items: list[Kdamond] = []

    def read(self) -> str:
        return str(len(self.items))

    def write(self, text: str) -> None:
        """damon_sysfs_kdamonds_add_dirs()."""
        nr = count(text)
        self._kernel.lock.require()
        if self.running:
            raise Refused(EBUSY)
        clear_numbered(self.folder)
        self.items = [Kdamond(self._kernel) for _ in range(nr)]
        for index, known in enumerate(self.items):
            self.folder.entries[str(index)] = known.folder

    @property
    def running(self) -> list[Kdamond]:
        return [known for known in self.items if known.running]

    def pids(self) -> set[int]:
        """Of every thread that runs."""
        return {known.pid for known in self.items if known.pid is not None}
