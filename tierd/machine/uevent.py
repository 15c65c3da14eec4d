"""Listens to the kernel's uevents about memory: a node or a memory block changed."""

import errno
import socket

from tierd.frozen import dataclass

# NETLINK_KOBJECT_UEVENT, and the multicast group of the kernel's own messages (udev sends copies to
# group 2).
NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1

# 8 KiB: a kernel uevent has at most 2 KiB (UEVENT_BUFFER_SIZE) and a header.
MESSAGE_BYTES_MAX = 8192

# 4096 messages: bringing a terabyte online sends thousands at once. They only say that the memory
# has changed, so it is enough to read a limited number of them at a time.
MESSAGES_PER_DRAIN_MAX = 4096

SUBSYSTEMS = frozenset({"memory", "node"})


@dataclass(frozen=True, slots=True)
class Uevent:
    """A message: the action (add, remove, online, offline, change) and the device."""

    action: str
    devpath: str
    subsystem: str


def parse(message: bytes) -> Uevent | None:
    """Return the uevent in a netlink message; None if the kernel did not send it."""
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
    """True if the topology may have changed."""
    return event.subsystem in SUBSYSTEMS


def listen() -> socket.socket | None:
    """Return a socket that becomes readable at each kernel uevent; None if that is not permitted.

    Without a socket hotplug is noticed by the periodic rescan, but later.
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
    """Read all messages. Return True if one of them concerned memory, or if some were lost."""
    found = False
    for _ in range(MESSAGES_PER_DRAIN_MAX):
        try:
            message = sock.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return found
        except OSError as error:
            # ENOBUFS: the queue was full and messages were lost, so memory may have changed.
            if error.errno != errno.ENOBUFS:
                raise
            return True
        event = parse(message)
        found = found or (event is not None and concerns_memory(event))
    return found
