"""Uevents as the kernel sends them (lib/kobject_uevent.c)."""

import errno
import socket

import pytest

from tierd.machine import uevent
from tierd.machine.uevent import Uevent

NODE_ADDED = (
    b"add@/devices/system/node/node2\0ACTION=add\0DEVPATH=/devices/system/node/node2\0"
    b"SUBSYSTEM=node\0SEQNUM=1931\0"
)
BLOCK_ONLINE = (
    b"online@/devices/system/memory/memory9\0ACTION=online\0"
    b"DEVPATH=/devices/system/memory/memory9\0SUBSYSTEM=memory\0SEQNUM=1932\0"
)
DISK = b"change@/devices/vda\0ACTION=change\0DEVPATH=/devices/vda\0SUBSYSTEM=block\0SEQNUM=7\0"
FROM_UDEV = b"libudev\0\xfe\xed\xca\xfe(\0\0\0"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (NODE_ADDED, Uevent("add", "/devices/system/node/node2", "node")),
        (BLOCK_ONLINE, Uevent("online", "/devices/system/memory/memory9", "memory")),
        (DISK, Uevent("change", "/devices/vda", "block")),
        (FROM_UDEV, None),
        (b"", None),
        (b"@\0", None),
        (b"add@/x\0ACTION=add\0", None),
        (b"add@/x\0ACTION=add\0DEVPATH=/x\0", Uevent("add", "/x", "")),
    ],
)
def test_parse(message: bytes, expected: Uevent | None) -> None:
    assert uevent.parse(message) == expected


@pytest.mark.parametrize(
    ("messages", "found"),
    [((), False), ((DISK, FROM_UDEV), False), ((DISK, NODE_ADDED, DISK), True)],
)
def test_drain_tells_whether_memory_changed(messages: tuple[bytes, ...], found: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    for message in messages:
        theirs.send(message)
    assert uevent.drain(ours) is found
    assert uevent.drain(ours) is False, "the queue was emptied"
    ours.close()
    theirs.close()


class Overrun(socket.socket):
    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        raise OSError(errno.ENOBUFS, "overrun")


def test_lost_messages_mean_look_again() -> None:
    with Overrun(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        assert uevent.drain(sock) is True
