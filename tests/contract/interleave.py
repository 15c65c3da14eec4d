"""What the kernel shows of the weights of weighted interleave, and what a write changes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.contract.behaviour import behaviour, since
from tests.contract.staging import taken
from tests.contract.subject import Subject

FOLDER = "sys/kernel/mm/mempolicy/weighted_interleave"


# 6.18 has the name of the switch as a macro of the compiler makes it.
SWITCHES = ("auto", "__auto_type")


def files(subject: Subject) -> dict[str, str]:
    """Return each file with its text."""
    sysfs = subject.sysfs
    return {name: sysfs.read(f"{FOLDER}/{name}") for name in sysfs.listdir(FOLDER)}


def switch(subject: Subject) -> str | None:
    """Return the file that has the kernel compute the weights; None before 6.16."""
    names = subject.sysfs.listdir(FOLDER)
    return next((f"{FOLDER}/{name}" for name in SWITCHES if name in names), None)


@contextmanager
def kept(subject: Subject) -> Iterator[None]:
    """Put all weights back at the end, and the switch last, since a weight turns it off."""
    before = files(subject)
    try:
        yield
    finally:
        for name in sorted(before, key=lambda one: one in SWITCHES):
            subject.sysfs.write(f"{FOLDER}/{name}", before[name])


@behaviour(
    cites="reduce_interleave_weights()",
    expect=since(
        {
            "6.12": {"node0": "1", "node1": "1"},
            "6.16": {"auto": "true", "node0": "26", "node1": "5"},
            "6.18": {"__auto_type": "true", "node0": "26", "node1": "5"},
            "7.2": {"auto": "true", "node0": "26", "node1": "5"},
        }
    ),
)
def weights(subject: Subject) -> dict[str, str]:
    """Every node has a weight, which the kernel computes from bandwidths while `auto` is on."""
    return files(subject)


@behaviour(
    cites="node_store() of mm/mempolicy.c",
    expect=since(
        {
            "6.12": {"node0": "7", "node1": "3"},
            "6.16": {"auto": "false", "node0": "7", "node1": "3"},
            "6.18": {"__auto_type": "false", "node0": "7", "node1": "3"},
            "7.2": {"auto": "false", "node0": "7", "node1": "3"},
        }
    ),
)
def written_weights(subject: Subject) -> dict[str, str]:
    """A weight that is written turns `auto` off."""
    with kept(subject):
        subject.sysfs.write(f"{FOLDER}/node0", "7")
        subject.sysfs.write(f"{FOLDER}/node1", "3")
        return files(subject)


@behaviour(
    cites="weighted_interleave_auto_store()",
    expect=since(
        {
            "6.12": "none",
            "6.16": {"off": "false 26 5", "on": "true 26 5"},
        }
    ),
)
def auto(subject: Subject) -> str | dict[str, str]:
    """`auto` that is switched off keeps the weights; switched on it computes them anew."""
    path = switch(subject)
    if path is None:
        return "none"
    with kept(subject):
        subject.sysfs.write(path, "false")
        off = _line(subject, path)
        subject.sysfs.write(f"{FOLDER}/node0", "9")
        subject.sysfs.write(path, "true")
        return {"off": off, "on": _line(subject, path)}


def _line(subject: Subject, path: str) -> str:
    names = (path, f"{FOLDER}/node0", f"{FOLDER}/node1")
    return " ".join(subject.sysfs.read(name) for name in names)


@behaviour(
    cites="node_store() of mm/mempolicy.c",
    expect=since(
        {
            "6.12": {"0": "1", "255": "255", "256": "EINVAL", "-1": "EINVAL", "x": "EINVAL"},
            "6.16": {"0": "EINVAL", "255": "255", "256": "EINVAL", "-1": "EINVAL", "x": "EINVAL"},
        }
    ),
)
def bounds(subject: Subject) -> dict[str, str]:
    """A weight is at most 255. Before 6.16 a weight of 0 stands for 1."""
    path, seen = f"{FOLDER}/node1", {}
    with kept(subject):
        for text in ("0", "255", "256", "-1", "x"):
            refused = taken(subject, path, text)
            seen[text] = subject.sysfs.read(path) if refused == "ok" else refused
    return seen
