"""Simulated kernels with staged kdamonds, for the tests of the files."""

from errno import errorcode

from tierd.sim.kernel_series import SERIES
from tierd.sim.machine_model import load
from tierd.sim.sim_kernel import DAMON, SimKernel
from tierd.sysfs import SysfsError

__all__ = ["CONTEXT", "SCHEME", "SERIES", "answer", "build", "command", "stage", "state"]

CONTEXT = f"{DAMON}/0/contexts/0"
SCHEME = f"{CONTEXT}/schemes/0"
# Node 1 of the two-tier machine begins at 512 MiB.
START, END = 0x4000_0000, 0x4400_0000


def build(series: str, seed: int = 0, block_pages: int = 64) -> SimKernel:
    """Return a kernel on the two-tier machine on which no module uses DAMON."""
    kernel = SimKernel(series, load("two-tier"), seed, block_pages=block_pages)
    if kernel.exists("sys/module/damon_stat"):
        kernel.write("sys/module/damon_stat/parameters/enabled", "N")
    return kernel


def stage(kernel: SimKernel, schemes: int = 1) -> None:
    """Stage one kdamond that watches 64 MiB; its schemes take all regions and change nothing."""
    write(kernel, f"{DAMON}/nr_kdamonds", 1)
    write(kernel, f"{DAMON}/0/contexts/nr_contexts", 1)
    write(kernel, f"{CONTEXT}/operations", "paddr")
    write(kernel, f"{CONTEXT}/targets/nr_targets", 1)
    write(kernel, f"{CONTEXT}/targets/0/regions/nr_regions", 1)
    write(kernel, f"{CONTEXT}/targets/0/regions/0/start", START)
    write(kernel, f"{CONTEXT}/targets/0/regions/0/end", END)
    write(kernel, f"{CONTEXT}/schemes/nr_schemes", schemes)
    for scheme in range(schemes):
        pattern = f"{CONTEXT}/schemes/{scheme}/access_pattern"
        write(kernel, f"{pattern}/sz/max", 2**64 - 1)
        write(kernel, f"{pattern}/nr_accesses/max", 2**32 - 1)
        write(kernel, f"{pattern}/age/max", 2**32 - 1)


def write(kernel: SimKernel, path: str, value: object) -> None:
    kernel.write(path, str(value))


def answer(kernel: SimKernel, path: str, value: object) -> str:
    """Write a value; return the name of the errno, or "ok"."""
    try:
        kernel.write(path, str(value))
    except SysfsError as error:
        return errorcode[error.errno]
    return "ok"


def command(kernel: SimKernel, word: str) -> str:
    """Write a command to the first kdamond; return the name of the errno, or "ok"."""
    return answer(kernel, f"{DAMON}/0/state", word)


def state(kernel: SimKernel) -> str:
    return kernel.read(f"{DAMON}/0/state")
