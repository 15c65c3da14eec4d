"""What every recorder of a profile does: wait for its minute, count the machine, join minutes."""

from collections.abc import Callable
from dataclasses import dataclass

from tierd.clock import Clock
from tierd.machine.sample import Watermarks
from tierd.machine.sample_reader import read_sample, vm_events
from tierd.profile import gather
from tierd.profile.minute import Moment
from tierd.profile.profile import Line
from tierd.serving.inbox import Inbox, Verb
from tierd.sysfs import Sysfs
from tierd.topology import Topology


@dataclass(slots=True)
class Joiner:
    """Joins minutes that are alike. `write` takes each line that is finished."""

    write: Callable[[Line], None]
    _pending: Line | None = None

    def add(self, minute: Line) -> None:
        done, self._pending = gather.added(self._pending, minute)
        if done is not None:
            self.write(done)

    def end(self) -> None:
        """Write the minutes that wait for others that are alike."""
        done, self._pending = self._pending, None
        if done is not None:
            self.write(done)


def waited(inbox: Inbox, clock: Clock, due_s: float) -> bool:
    """Wait until a moment; return False if a signal to stop came."""
    while (left_s := due_s - clock.monotonic()) > 0:
        if any(event.verb is Verb.stop for event in inbox.wait(left_s)):
            return False
    return True


def moment(
    sysfs: Sysfs, topology: Topology, clock: Clock, marks: tuple[Watermarks, ...] | None = None
) -> Moment:
    """Read the counters of the machine. `marks` are its watermarks, if they are known."""
    sample = read_sample(sysfs, topology, {}, clock.monotonic(), marks)
    return Moment(sample, vm_events(sysfs))
