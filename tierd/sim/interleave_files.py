"""The weights of weighted interleave (mm/mempolicy.c): sys/kernel/mm/mempolicy/weighted_interleave.

Since 6.16 the kernel computes them from the bandwidths of the nodes while `auto` is on. A weight
that somebody writes switches it off.
"""

from collections.abc import Callable
from errno import EINVAL, ENODEV
from math import gcd

from tierd.sim import kstrto
from tierd.sim.damon_modules import Switch
from tierd.sim.file_tree import Directory, Live, Refused
from tierd.sim.machine_model import MachineModel

FOLDER = "sys/kernel/mm/mempolicy/weighted_interleave"
_WEIGHTINESS = 32


class WeightedInterleave:
    """The table of weights, and its files."""

    def __init__(
        self, machine: MachineModel, with_memory: Callable[[], list[int]], *, auto: str
    ) -> None:
        self._machine = machine
        self._with_memory = with_memory
        self._switch = auto
        self._auto = bool(auto)
        self._weights = self._by_bandwidth() or dict.fromkeys(self._nodes(), 1)

    def install(self, root: Directory) -> None:
        """Create the files."""
        folder = root.make(FOLDER)
        for nid in self._nodes():
            folder.put(f"node{nid}", self._file(nid))
        if self._switch:
            folder.put(self._switch, Switch(lambda: self._auto, self._set_auto))

    def _nodes(self) -> list[int]:
        return [node.id for node in self._machine.nodes]

    def _file(self, nid: int) -> Live:
        return Live(lambda: str(self._weights[nid]), lambda text: self._set_weight(nid, text))

    def _set_weight(self, nid: int, text: str) -> None:
        """node_store(): without `auto` 0 stands for the default; with it 0 is refused.

        What is no number and what is too large get the same error.
        """
        word = text.strip()
        try:
            weight = kstrto.u8(word) if word or self._switch else 0
        except Refused:
            raise Refused(EINVAL) from None
        if self._switch and weight == 0:
            raise Refused(EINVAL)
        self._weights[nid] = weight or 1
        self._auto = False

    def _set_auto(self, on: bool) -> None:
        if on:
            weights = self._by_bandwidth()
            if weights is None:
                raise Refused(ENODEV)
            self._weights = weights
        self._auto = on

    def _by_bandwidth(self) -> dict[int, int] | None:
        """Return the weights that the kernel computes (reduce_interleave_weights())."""
        listed = {node.id: node.bandwidth_mbps for node in self._machine.nodes}
        known = {nid: mbps for nid, mbps in listed.items() if mbps and nid in self._with_memory()}
        if not self._switch or not known:
            return None
        total = sum(known.values())
        weights = {nid: max(1, _WEIGHTINESS * mbps // total) for nid, mbps in known.items()}
        divisor = gcd(*weights.values())
        return {nid: weights.get(nid, divisor) // divisor for nid in listed}
