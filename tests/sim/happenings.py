"""The single things that can happen to a machine and to tierd in a world (`world.py`)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EBUSY, EIO, ENOENT, ENOMEM
from functools import partial
from typing import TYPE_CHECKING

from tests.sim.loop import KDAMONDS
from tierd.serving.inbox import Event, Verb
from tierd.sim.sim_kernel import InjectedFailure, SimKernel
from tierd.sysfs import SysfsError

if TYPE_CHECKING:
    from tests.sim.world import World

FAILURES = (EBUSY, EIO, ENOENT, ENOMEM)
HOT_HZ = 100.0
# Cgroups are created and removed below this one. A configuration can exclude it.
PODS = "/pods"
PODS_MAX = 6

Happening = Callable[["World"], Event | None]


def healed(world: "World") -> None:
    world.kernel.heal()


def storm(world: "World") -> None:
    """Every file refuses for a while."""
    code = world.random.choice(FAILURES)
    world.kernel.fail(InjectedFailure(world.kernel.operations + 1, code, for_ever=True))
    world.script.at(world.now_s + world.random.uniform(0.1, 30.0), partial(healed, world))


def hiccup(world: "World") -> None:
    """One operation of the next hundred is refused."""
    at = world.kernel.operations + world.random.randint(1, 100)
    world.kernel.fail(InjectedFailure(at, world.random.choice(FAILURES)))


@contextmanager
def unrefused(kernel: SimKernel) -> Iterator[None]:
    """Suspend all failures."""
    failures, kernel._failures = kernel._failures, []
    try:
        yield
    finally:
        kernel._failures = failures


def of_others(act: Callable[["World"], None]) -> Happening:
    """Return a happening by others, whose operations do not fail when tierd's do."""

    def happen(world: "World") -> None:
        with unrefused(world.kernel):
            act(world)

    return happen


def _count(world: "World") -> int:
    return int(world.kernel.read(f"{KDAMONDS}/nr_kdamonds"))


def _on(world: "World", index: int) -> bool:
    return world.kernel.read(f"{KDAMONDS}/{index}/state") == "on"


def _ours(world: "World") -> int | None:
    """Return the index of one of tierd's kdamonds, if there is one."""
    count = _count(world)
    return None if world.gate.foreign or not count else world.random.randrange(count)


@of_others
def death(world: "World") -> None:
    """End a kdamond, as if by itself."""
    index = _ours(world)
    if index is not None and _on(world, index):
        world.kernel.end_kdamond(index)


@of_others
def take_over(world: "World") -> None:
    """Somebody stops tierd's kdamonds and creates one; later they remove it."""
    if world.gate.foreign:
        return
    for index in range(_count(world)):
        if _on(world, index):
            world.kernel.write(f"{KDAMONDS}/{index}/state", "off")
    world.kernel.write(f"{KDAMONDS}/nr_kdamonds", str(world.random.randint(1, 3)))
    world.kernel.write(f"{KDAMONDS}/0/contexts/nr_contexts", "1")
    world.gate.foreign = True
    world.script.at(world.now_s + world.random.uniform(1.0, 120.0), partial(leave, world))


@of_others
def removal(world: "World") -> None:
    """Somebody removes tierd's kdamonds and creates none."""
    if world.gate.foreign:
        return
    for index in range(_count(world)):
        if _on(world, index):
            world.kernel.write(f"{KDAMONDS}/{index}/state", "off")
    world.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0")


def leave(world: "World") -> None:
    if world.gate.foreign:
        of_others(lambda it: it.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0"))(world)
        world.gate.foreign = False


def _scribble(world: "World") -> int | None:
    """Somebody writes into a file of tierd's kdamond. Return the kdamond's index."""
    index = _ours(world)
    if index is None:
        return None
    name, value = world.random.choice((("bytes", "4096"), ("goals/0/current_value", "1")))
    path = f"{KDAMONDS}/{index}/contexts/0/schemes/0/quotas/{name}"
    if not world.kernel.exists(path):
        return None
    world.kernel.write(path, value)
    return index


@of_others
def foreign_write(world: "World") -> None:
    _scribble(world)


@of_others
def foreign_commit(world: "World") -> None:
    """Somebody writes into a file of tierd's kdamond and commits it."""
    index = _scribble(world)
    if index is not None and _on(world, index):
        try:
            world.kernel.write(f"{KDAMONDS}/{index}/state", "commit")
        except SysfsError as error:
            # As for everybody: one of a cgroup that has gone, or of a kdamond that ends just now.
            world.happened.append(f"{world.now_s:.1f} s: {error}")


def unplug(world: "World") -> Event:
    """A slow node is unplugged and later plugged in again."""
    node = world.random.choice(sorted(world.kernel.memory.nodes)[1:])
    world.kernel.set_node(node, online=False)
    world.unplugged.add(node)
    back_s = world.now_s + world.random.uniform(1.0, 60.0)
    world.script.at(back_s, partial(plug, world, node))
    return Event(Verb.hotplug, "world")


def plug(world: "World", node: int) -> Event:
    world.kernel.set_node(node, online=True)
    world.unplugged.discard(node)
    return Event(Verb.hotplug, "world")


def heat(world: "World") -> None:
    """Cold memory is hot for a while."""
    world.kernel.memory.set_rate("set", HOT_HZ)
    cools_s = world.now_s + world.random.uniform(5.0, 30.0)
    world.script.at(cools_s, lambda: world.kernel.memory.set_rate("set", 0.0))


def pods(world: "World") -> None:
    """A cgroup is created; if there are many, another is removed."""
    known = sorted(path for path in world.kernel.cgroups if path.startswith(f"{PODS}/"))
    world.kernel.add_cgroup(f"{PODS}/{world.kernel.operations}")
    if len(known) >= PODS_MAX or (known and world.random.random() < 0.5):
        world.kernel.remove_cgroup(world.random.choice(known))


def suspend(world: "World") -> None:
    """The machine sleeps, for all that tierd can tell; the round after it is late."""
    world.kernel.advance(world.random.uniform(20.0, 300.0))
    world.round_s = world.now_s


def ask(verb: Verb, _world: "World") -> Event:
    return Event(verb, "world")


def kill(world: "World") -> None:
    """kill -9: tierd stops at once, wherever it is."""
    world.gate.dead = True


HAPPENINGS: tuple[tuple[str, Happening], ...] = (
    ("storm", storm),
    ("hiccup", hiccup),
    ("hiccup", hiccup),
    ("hiccup", hiccup),
    ("death of a kdamond", death),
    ("take-over", take_over),
    ("removal", removal),
    ("foreign write", foreign_write),
    ("foreign commit", foreign_commit),
    ("unplug", unplug),
    ("heat", heat),
    ("pods", pods),
    ("pods", pods),
    ("suspend", suspend),
    ("pause", partial(ask, Verb.pause)),
    ("resume", partial(ask, Verb.resume)),
    ("resume", partial(ask, Verb.resume)),
    ("reload", partial(ask, Verb.reload)),
    ("kill", kill),
)
