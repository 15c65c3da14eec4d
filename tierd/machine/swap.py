"""Reads which swap areas the kernel uses: /proc/swaps."""

from tierd.errors import TierdError
from tierd.figures import KIB_MAX, number
from tierd.frozen import dataclass
from tierd.sysfs import Sysfs, optional

PATH = "proc/swaps"

# The names of devices that keep swapped pages in memory, compressed.
IN_MEMORY = "/dev/zram"


@dataclass(frozen=True, slots=True)
class SwapArea:
    """One swap area that is on."""

    name: str
    size_bytes: int
    used_bytes: int

    @property
    def in_memory(self) -> bool:
        """True if it takes memory itself."""
        return self.name.startswith(IN_MEMORY)


def areas(sysfs: Sysfs) -> tuple[SwapArea, ...]:
    """Return the swap areas that are on; none if the kernel has no swap."""
    return parse(optional(sysfs, PATH) or "")


def parse(text: str) -> tuple[SwapArea, ...]:
    """Return the swap areas of the kernel's table. Its first line is a heading."""
    return tuple(_area(line) for line in text.splitlines()[1:] if line.strip())


def _area(line: str) -> SwapArea:
    # The kernel writes a blank in a name as \040, so a line has five words.
    words = line.split()
    if len(words) != 5:
        raise TierdError(
            f"/{PATH}: expected a name, a type and three numbers, found {line!r}",
            "this kernel prints its swap areas in a new form; please report it",
        )
    size, used = (number(PATH, word, most=KIB_MAX) * 1024 for word in words[2:4])
    return SwapArea(words[0], size, used)


def has_backing(found: tuple[SwapArea, ...]) -> bool:
    """Return whether swapped pages leave memory: an area is on that is not in memory itself."""
    return any(not area.in_memory for area in found)
