"""Memory of this process that lies on one node, and functions of the C library that run on it.

Python cannot bind memory to a node, and it is too slow to wait for memory. So the system call
`mbind` is made through the C library, and so is the work: `memchr` reads, and `tfind` follows
pointers. `tfind` searches a binary tree; glibc and musl keep a node of the tree as three pointers
(key, left, right). A tree without left branches is a list, and each step waits for the one before.
"""

import ctypes
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Barrier, Thread
from time import perf_counter, thread_time

from tierd.errors import Unsupported
from tierd.frozen import dataclass

# The numbers of the system calls mbind and get_mempolicy.
CALLS = {"x86_64": (237, 239), "aarch64": (235, 236), "riscv64": (235, 236), "ppc64le": (259, 260)}

# From linux/mempolicy.h and asm-generic/mman.h.
MPOL_PREFERRED, MPOL_BIND = 1, 2
MPOL_F_NODE, MPOL_F_ADDR = 1, 2
PROT_READ_WRITE = 3
MAP_PRIVATE_ANONYMOUS = 0x22
MADV_HUGEPAGE = 14
MAP_FAILED = ctypes.c_void_p(-1).value

LINE_BYTES = 64
_WORD_BYTES = 8
_KEY, _RIGHT, _TEXT = 0, 2, 3
"""The words of a line: the pointer to the key, the next line, and the key itself."""

_NOWHERE = b"b"
"""A key that is in no tree. It is greater than each key, so that `tfind` goes to the right."""
_HERE = ord("a")


@dataclass(frozen=True, slots=True)
class BoundMemory:
    """Memory on one node; `address` is that of its first byte."""

    node: int
    address: int
    size_bytes: int

    def chain(self, lines: Sequence[int]) -> "Chain":
        """Link these lines of the memory, in this order."""
        words = (ctypes.c_uint64 * (self.size_bytes // _WORD_BYTES)).from_address(self.address)
        per_line = LINE_BYTES // _WORD_BYTES
        for line, after in zip(lines, [*lines[1:], -1], strict=True):
            at = line * per_line
            words[at + _KEY] = self.address + (at + _TEXT) * _WORD_BYTES
            words[at + _RIGHT] = 0 if after < 0 else self.address + after * LINE_BYTES
            words[at + _TEXT] = _HERE
        return Chain(self.address + lines[0] * LINE_BYTES, len(lines))

    def read(self) -> None:
        """Read all of it. It must hold only zeros."""
        _libc().memchr(self.address, 1, self.size_bytes)

    def read_s(self, start: int, end: int, threads: int, rounds: int) -> float:
        """Read a part that holds only zeros, so many times, and return how long it took."""
        step = (end - start) // threads
        gate = Barrier(threads + 1)
        libc = _libc()

        def work(number: int) -> None:
            gate.wait()
            for _ in range(rounds):
                libc.memchr(self.address + start + number * step, 1, step)
            gate.wait()

        started = [Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
        for thread in started:
            thread.start()
        gate.wait()
        began_s = perf_counter()
        gate.wait()
        took_s = perf_counter() - began_s
        for thread in started:
            thread.join()
        return took_s


@dataclass(frozen=True, slots=True)
class Chain:
    """Lines that are linked; `first` is the address of the first."""

    first: int
    lines: int

    def walk_s(self, times: int = 1) -> float:
        """Follow the links from the first to the last line.

        Return the processor time that it took. A processor that waits for memory counts as used,
        and what another program used in between does not count.
        """
        libc, root = _libc(), ctypes.c_void_p(self.first)
        compare = ctypes.cast(libc.strcmp, ctypes.c_void_p)
        began_s = thread_time()
        for _ in range(times):
            libc.tfind(_NOWHERE, ctypes.byref(root), compare)
        return thread_time() - began_s


@contextmanager
def bound(node: int, size_bytes: int) -> Iterator[BoundMemory]:
    """Take memory that must be on a node, and give it back at the end."""
    memory = take(node, size_bytes, MPOL_BIND)
    try:
        _require_there(memory)
        yield memory
    finally:
        give_back(memory)


def take(node: int, size_bytes: int, policy: int = MPOL_PREFERRED) -> BoundMemory:
    """Take memory, and fill it with zeros.

    If the node is full, preferred memory lies elsewhere. Bound memory would have programs killed.
    """
    mbind, _ = _calls()
    libc = _libc()
    address = libc.mmap(None, size_bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
    if address in (None, MAP_FAILED):
        raise _refused("mmap", node)
    memory = BoundMemory(node, address, size_bytes)
    mask = (ctypes.c_ulong * (node // 64 + 1))()
    mask[node // 64] = 1 << node % 64
    bits = len(mask) * 64 + 1
    if libc.syscall(mbind, ctypes.c_void_p(address), ctypes.c_size_t(size_bytes),
                    policy, mask, ctypes.c_ulong(bits), 0):  # fmt: skip
        refused = _refused("mbind", node)
        give_back(memory)
        raise refused
    # Huge pages keep the time of page walks out of the figures. They are only a wish.
    libc.madvise(address, size_bytes, MADV_HUGEPAGE)
    libc.memset(address, 0, size_bytes)
    return memory


def give_back(memory: BoundMemory) -> None:
    _libc().munmap(memory.address, memory.size_bytes)


@contextmanager
def running_on(cpus: Sequence[int]) -> Iterator[None]:
    """Let this thread, and the threads that it starts, run on these CPUs only."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise Unsupported(
            f"sched_setaffinity: {error.strerror}",
            "a sandbox may forbid it; tierd's unit allows it",
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _require_there(memory: BoundMemory) -> None:
    """Raise if the memory is not on its node: somebody may have moved it."""
    for part in range(16):
        node = node_of(memory.address + part * (memory.size_bytes // 16))
        if node != memory.node:
            raise Unsupported(
                f"memory that was bound to node {memory.node} is on node {node}",
                "something moves pages: pause it (`tierd pause`), and measure again",
            )


def node_of(address: int) -> int:
    """Return the node of the page at an address of this process."""
    _, get_mempolicy = _calls()
    node = ctypes.c_int(-1)
    flags = ctypes.c_ulong(MPOL_F_NODE | MPOL_F_ADDR)
    at, unused = ctypes.c_void_p(address), ctypes.c_ulong(0)
    if _libc().syscall(get_mempolicy, ctypes.byref(node), None, unused, at, flags):
        raise Unsupported(
            f"get_mempolicy: {os.strerror(ctypes.get_errno())}",
            "a container may forbid it: run this outside",
        )
    return node.value


def _calls() -> tuple[int, int]:
    machine = platform.machine()
    if machine not in CALLS:
        raise Unsupported(
            f"tierd cannot bind memory on {machine}",
            f"it knows the system calls of {', '.join(CALLS)}",
        )
    return CALLS[machine]


def _refused(call: str, node: int) -> Unsupported:
    code = ctypes.get_errno()
    return Unsupported(
        f"{call} for node {node}: {os.strerror(code)}",
        "a container or a cpuset may forbid it: run `tierd doctor --measure` outside",
    )


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "tfind"):
        raise Unsupported("this C library has no tfind", "use Python with glibc or musl")
    _typed(libc.mmap, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
           ctypes.c_long)  # fmt: skip
    _typed(libc.munmap, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    _typed(libc.madvise, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _typed(libc.memset, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    _typed(libc.memchr, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    _typed(libc.tfind, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
    libc.syscall.restype = ctypes.c_long
    return libc


def _typed(function: "ctypes._NamedFuncPointer", result: type, *arguments: type) -> None:
    function.restype, function.argtypes = result, arguments
