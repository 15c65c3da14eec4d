"""Kernel uevents about memory: a node or a memory block that came, went, or changed state."""

import errno
import socket
from dataclasses import dataclass

# NETLINK_KOBJECT_UEVENT, and the multicast group on which the kernel itself speaks (udev's
# re-broadcasts are on group 2).
NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1

# A kernel uevent is at most 2 KiB (UEVENT_BUFFER_SIZE) plus its header.
MESSAGE_BYTES_MAX = 8192

# Onlining a terabyte makes thousands of events in one burst; they only say "look again", so it is
# enough to empty the queue a bounded number of times per wake-up.
MESSAGES_PER_DRAIN_MAX = 4096

SUBSYSTEMS = frozenset({"memory", "node"})


@dataclass(frozen=True, slots=True)
class Uevent:
    """One message: what happened (add, remove, online, offline, change) to which device."""

    action: str
    devpath: str
    subsystem: str


def parse(message: bytes) -> Uevent | None:
    """The uevent in a netlink message, or None for what is not one of the kernel's."""
    head, *fields = message.split(b"\0")
    if b"@" not in head:
        return None
    pairs = dict(field.split(b"=", 1) for field in fields if b"=" in field)
    if b"ACTION" not in pairs or b"DEVPATH" not in pairs:
        return None
    return Uevent(
        action=pairs[b"ACTION"].decode("utf-8", "replace"),
        devpath=pairs[b"DEVPATH"].decode("utf-8", "replace"),
        subsystem=pairs.get(b"SUBSYSTEM", b"").decode("utf-8", "replace"),
    )


def concerns_memory(event: Uevent) -> bool:
    """Whether the topology may have changed."""
    return event.subsystem in SUBSYSTEMS


def listen() -> socket.socket | None:
    """A socket that becomes readable at each kernel uevent; None where that is not allowed.

    Without it hotplug is noticed by the periodic rescan, later but surely.
    """
    try:
        sock = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT
        )
    except OSError:
        return None
    try:
        sock.bind((0, KERNEL_GROUP))
    except OSError:
        sock.close()
        return None
    sock.setblocking(False)
    return sock


def drain(sock: socket.socket) -> bool:
    """Empty the queue; True if any message concerned memory, or if some were lost."""
    found = False
    for _ in range(MESSAGES_PER_DRAIN_MAX):
        try:
            message = sock.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return found
        except OSError as error:
            # ENOBUFS: the queue overran, so anything may have happened.
            if error.errno != errno.ENOBUFS:
                raise
            return True
        event = parse(message)
        found = found or (event is not None and concerns_memory(event))
    return found
