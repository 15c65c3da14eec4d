"""Virtual time: runs memory, workload and kdamonds in the order in which they are due.

The files start, stop and command kdamonds through this module. Nothing here knows a file.

* `advance(until_us)` runs everything that is due, in the order of virtual time.
* A command of `state` blocks its writer until the kdamond serves it. `serve()` advances the time
  to that moment, carries out the request (the 6.12 series commits in the middle of a tick) and
  returns the outcome. The callback `served` can read `kdamond.stats()` and others at that moment.
"""

from collections.abc import Callable
from enum import StrEnum
from random import Random

from tierd.sim.context_spec import ContextSpec
from tierd.sim.kdamond import Kdamond
from tierd.sim.memory import Memory
from tierd.sim.quirks import KdamondQuirks, Serves
from tierd.sim.workload import Workload

# How often the older kernels check whether their request was served (damon_sysfs_handle_cmd()).
_POLL_US = 100_000
# The longest wait that is possible without a mistake is one apply interval. A wait of a day is a
# mistake in a test.
_MAX_WAIT_US = 24 * 3600 * 1_000_000


class Request(StrEnum):
    """A command that a running kdamond serves, by its keyword in `state`."""

    commit = "commit"
    commit_goals = "commit_schemes_quota_goals"
    stats = "update_schemes_stats"
    effective = "update_schemes_effective_quotas"
    tuned = "update_tuned_intervals"
    tried_regions = "update_schemes_tried_regions"
    tried_bytes = "update_schemes_tried_bytes"


class Outcome(StrEnum):
    """How a request ended; state_commands.py turns it into the errno of the series, if any."""

    done = "done"
    cancelled = "cancelled"  # not running, deactivated or paused: -ECANCELED, -EINVAL on 6.12
    failed = "failed"  # a commit without a usable spec; see serve()


class Scheduler:
    """Runs everything that is due. Equal seeds and equal calls give equal histories."""

    def __init__(
        self,
        memory: Memory,
        quirks: KdamondQuirks,
        seed: int,
        workload: Workload | None = None,
        has_process: Callable[[int], bool] = lambda _pid: True,
    ) -> None:
        self.memory = memory
        self.quirks = quirks
        self.workload = workload
        self.now_us = 0
        self._has_process = has_process
        self._rng = Random(seed)
        self._kdamonds: list[Kdamond] = []

    @property
    def kdamonds(self) -> tuple[Kdamond, ...]:
        """The kdamonds that run."""
        return tuple(self._kdamonds)

    def advance(self, until_us: int) -> None:
        """Let virtual time pass until `until_us` and run everything that is due by then."""
        self.memory.run_kswapd(self.now_us)  # the caller may have filled memory since the last call
        while (due_us := self._next_us()) is not None and due_us <= until_us:
            self._step(due_us)
        self.now_us = max(self.now_us, until_us)

    def start(self, spec: ContextSpec, pid: int) -> Kdamond:
        """Start a kdamond with a checked context (damon_start()). It runs from now_us on."""
        rng = Random(self._rng.random())
        kdamond = Kdamond(spec, self.quirks, self.memory, pid, self.now_us, rng, self._has_process)
        self._kdamonds.append(kdamond)
        return kdamond

    def stop(self, kdamond: Kdamond) -> None:
        """End the kdamond (damon_stop()). Its last statistics stay readable."""
        kdamond.end()
        self._forget_ended()

    def serve(
        self,
        kdamond: Kdamond,
        request: Request,
        spec: ContextSpec | None = None,
        served: Callable[[], None] | None = None,
    ) -> Outcome:
        """Block as a writer of `state` does, until the kdamond has served the request.

        commit and commit_goals need a `spec`. None stands for a context that the kernel refuses:
        the outcome is `failed` and nothing changes, except that a kdamond of 6.12 ends.
        `served` is called when the request was done, before the kdamond and then the writer
        continue.
        """
        if not kdamond.alive:
            return Outcome.cancelled
        asked_us = self.now_us
        answers: list[Outcome] = []

        def answer(outcome: Outcome) -> None:
            answers.append(outcome)
            if outcome is Outcome.done and served is not None:
                served()

        if request in (Request.tried_regions, Request.tried_bytes):
            kdamond.walk(
                lambda done: answer(Outcome.done if done else Outcome.cancelled), self.now_us
            )
        else:
            kdamond.call(
                lambda: answer(self._answer(kdamond, request, spec)),
                commits=request is Request.commit,
                now_us=self.now_us,
            )
        self._wait(kdamond, answers)
        if self.quirks.serves is Serves.callback:
            waited = self.now_us - asked_us
            self.advance(asked_us + -(-waited // _POLL_US) * _POLL_US)
        return answers[0] if answers else Outcome.cancelled

    def _wait(self, kdamond: Kdamond, answers: list[Outcome]) -> None:
        give_up_us = self.now_us + _MAX_WAIT_US
        while not answers and kdamond.alive:
            due_us = self._next_us()
            assert due_us is not None
            assert due_us <= give_up_us, "a request that nobody serves"
            self._step(due_us)

    def _answer(self, kdamond: Kdamond, request: Request, spec: ContextSpec | None) -> Outcome:
        if request not in (Request.commit, Request.commit_goals):
            return Outcome.done
        if spec is None:
            if request is Request.commit and self.quirks.serves is Serves.callback:
                kdamond.end()
            return Outcome.failed
        if request is Request.commit:
            kdamond.commit(spec)
        else:
            kdamond.commit_goals(spec)
        return Outcome.done

    def _next_us(self) -> int | None:
        due = [kdamond.wake_us for kdamond in self._kdamonds]
        if self.workload is not None and self.workload.due_us is not None:
            due.append(self.workload.due_us)
        return min(due, default=None)

    def _step(self, due_us: int) -> None:
        self.now_us = max(self.now_us, due_us)
        if self.workload is not None and self.workload.due_us == due_us:
            self.workload.run(self.memory, due_us)
        for kdamond in [known for known in self._kdamonds if known.wake_us <= due_us]:
            kdamond.wake()
        self.memory.run_kswapd(self.now_us)
        self._forget_ended()

    def _forget_ended(self) -> None:
        self._kdamonds = [kdamond for kdamond in self._kdamonds if kdamond.alive]
