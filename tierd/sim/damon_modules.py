"""The DAMON modules of the kernel tree: their parameters, and their exclusive kdamond.

The effect of the modules on memory is not simulated. They only keep other users from DAMON.
"""

from collections.abc import Callable, Mapping
from errno import EINVAL

from tierd.sim import kstrto
from tierd.sim.file_tree import (
    READ_WRITE,
    ROOT_READ_ONLY,
    ROOT_READ_WRITE,
    Directory,
    Live,
    Refused,
)
from tierd.sim.kdamond_threads import KdamondThreads
from tierd.sim.kernel_series import Parameter


class ModuleParameter:
    """A parameter that keeps each value that has the format of its default."""

    __slots__ = ("mode", "text")

    def __init__(self, parameter: Parameter) -> None:
        self.mode = parameter.mode
        self.text = parameter.text

    def read(self) -> str:
        return self.text

    def write(self, text: str) -> None:
        if self.text in ("Y", "N"):
            self.text = "Y" if kstrto.boolean(text) else "N"
        else:
            self.text = str(kstrto.ulong(text))


class DamonModule:
    """The directory sys/module/NAME/parameters, and the kdamond of the module."""

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        threads: KdamondThreads,
        whole_ram: tuple[int, int],
    ) -> None:
        self._threads = threads
        self._whole_ram = whole_ram
        self._pid: int | None = None
        self.folder = Directory()
        self._settings = {
            name: ModuleParameter(parameter) for name, parameter in parameters.items()
        }
        self.folder.entries.update(self._settings)
        enabled = Live(
            lambda: "Y" if self.running else "N",
            lambda text: self.enable(kstrto.boolean(text)),
            ROOT_READ_WRITE,
        )
        pid = Live(lambda: str(-1 if self._pid is None else self._pid), mode=ROOT_READ_ONLY)
        for name, file in (("enabled", enabled), ("kdamond_pid", pid)):
            if name in parameters:
                self.folder.entries[name] = file

    @property
    def running(self) -> bool:
        return self._pid is not None

    def enable(self, wanted: bool) -> None:
        """Start or stop the kdamond of the module."""
        if wanted == self.running:
            return
        if wanted:
            self._find_region()
            self._pid = self._threads.start(exclusive=True)
        else:
            self._threads.stop_exclusive()
            self._pid = None

    def _find_region(self) -> None:
        """Set the largest range if none is set (damon_set_region_biggest_system_ram_default())."""
        start = self._settings.get("monitor_region_start")
        end = self._settings.get("monitor_region_end")
        if start and end and (start.text, end.text) == ("0", "0"):
            start.text, end.text = (str(edge) for edge in self._whole_ram)


class Switch:
    """A boolean file that reads "true" or "false", as sys/kernel/mm/numa/demotion_enabled."""

    __slots__ = ("_get", "_set", "mode")

    def __init__(self, get: Callable[[], bool], set_to: Callable[[bool], None]) -> None:
        self.mode = READ_WRITE
        self._get = get
        self._set = set_to

    def read(self) -> str:
        return "true" if self._get() else "false"

    def write(self, text: str) -> None:
        self._set(kstrto.boolean(text))


class LruGen:
    """The file sys/kernel/mm/lru_gen/enabled: a mask of capabilities. "y" enables all of them."""

    __slots__ = ("_all", "_caps", "mode")

    def __init__(self, text: str) -> None:
        self.mode = READ_WRITE
        self._caps = self._all = int(text, 16)

    def read(self) -> str:
        return f"0x{self._caps:04x}"

    def write(self, text: str) -> None:
        """Set the mask from a number or from "y" or "n" (enabled_store())."""
        if text[0].lower() in ("n", "y"):
            self._caps = self._all if text[0].lower() == "y" else 0
        else:
            self._caps = _flat_uint(text) & self._all


def _flat_uint(text: str) -> int:
    try:
        return kstrto.uint(text)
    except Refused as refused:
        raise Refused(EINVAL) from refused


def bounded(text: str, least: int, most: int) -> int:
    """Return the number if it is within the bounds, else EINVAL (proc_dointvec_minmax()).

    Spaces around the number are allowed.
    """
    try:
        value = kstrto.integer(text.strip())
    except Refused as refused:
        raise Refused(EINVAL) from refused
    if not least <= value <= most:
        raise Refused(EINVAL)
    return value
