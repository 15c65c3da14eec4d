"""Memory blocks: sys/devices/system/memory, and memory that goes offline and comes back.

This follows drivers/base/memory.c and offline_pages(): a memory block can go offline if everything
in it can be moved elsewhere. Otherwise the answer is EBUSY.
"""

from collections.abc import Callable
from errno import EBUSY, EINVAL

from tierd.frozen import replace
from tierd.sim import kstrto
from tierd.sim.block_memory import ABSENT, FREE, KERNEL, RESERVED, BlockMemory, BlockZone
from tierd.sim.context_spec import Range
from tierd.sim.file_tree import READ_WRITE, Directory, Fixed, Live, Refused
from tierd.sim.firmware import whole
from tierd.sim.memory import Memory, Zone
from tierd.sim.node_files import NODES

BLOCKS = "sys/devices/system/memory"

_MIB = 2**20
_GIB = 2**30
# probe_memory_block_size(): large machines have large blocks.
_LARGE_MACHINE_BYTES = 64 * _GIB
_LARGE_BLOCK_BYTES = 2 * _GIB
_SMALL_BLOCK_BYTES = 128 * _MIB
_ONLINE_WORDS = {"online", "online_kernel", "online_movable"}


class MemoryBlocks:
    """All memory blocks, by their numbers."""

    def __init__(self, memory: Memory, changed: Callable[[], None]) -> None:
        self._memory = memory
        self._changed = changed
        end = max(part.end for ranges in memory.ranges.values() for part in ranges)
        large = end >= _LARGE_MACHINE_BYTES
        self.block_bytes = _LARGE_BLOCK_BYTES if large else _SMALL_BLOCK_BYTES
        self._zones: list[Zone] = [zone for node in memory.nodes.values() for zone in node.zones]
        self._online = dict.fromkeys(self._numbers(), True)
        self._spare: dict[Range, int] = {}
        self._whole = {number for number in self._online if whole(memory, self._range(number))}

    def install(self, root: Directory) -> None:
        """Create the files, and the links from each node to its memory blocks."""
        folder = root.make(BLOCKS)
        folder.put("block_size_bytes", Fixed(f"{self.block_bytes:x}"))
        folder.put("auto_online_blocks", Fixed("online", READ_WRITE))
        for number in self._online:
            self._install_block(folder.make(f"memory{number}"), number)
            for nid in {zone.spec.nid for zone in self._zones_of(number)}:
                root.directory(f"{NODES}/node{nid}").entries[f"memory{number}"] = folder.directory(
                    f"memory{number}"
                )

    def _install_block(self, folder: Directory, number: int) -> None:
        def set_state(text: str) -> None:
            self._set_state(number, text.removesuffix("\n"))

        def set_online(text: str) -> None:
            wanted = kstrto.boolean(text)
            if wanted != self._online[number]:
                self._set_state(number, "online" if wanted else "offline")

        def state() -> str:
            return "online" if self._online[number] else "offline"

        folder.put("state", Live(state, set_state))
        folder.put("online", Live(lambda: str(int(self._online[number])), set_online))
        folder.put("phys_index", Fixed(f"{number:08x}"))
        folder.put("phys_device", Fixed("0"))
        folder.put("removable", Fixed("1"))
        folder.put("valid_zones", Live(lambda: self._valid_zones(number)))
        folder.put("uevent", Fixed("", READ_WRITE))

    def _numbers(self) -> list[int]:
        found: set[int] = set()
        for ranges in self._memory.ranges.values():
            for part in ranges:
                found |= set(
                    range(part.start // self.block_bytes, -(-part.end // self.block_bytes))
                )
        return sorted(found)

    def _zones_of(self, number: int) -> list[Zone]:
        part = self._range(number)
        return [
            zone
            for zone in self._zones
            if zone.spec.range.start < part.end and part.start < zone.spec.range.end
        ]

    def _range(self, number: int) -> Range:
        return Range(number * self.block_bytes, (number + 1) * self.block_bytes)

    def _valid_zones(self, number: int) -> str:
        zones = self._zones_of(number)
        if len(zones) != 1:
            return "none"
        # An offline block may also come back as movable.
        return zones[0].spec.name + ("" if self._online[number] else " Movable")

    def _set_state(self, number: int, word: str) -> None:
        """Set a block online or offline (state_store()). The state that it has is EINVAL."""
        if word != "offline" and word not in _ONLINE_WORDS:
            raise Refused(EINVAL)
        wanted = word != "offline"
        if wanted == self._online[number]:
            raise Refused(EINVAL)
        zones = self._zones_of(number)
        # offline_pages(): a memory block with several zones or with a hole cannot go offline.
        if len(zones) != 1 or number not in self._whole:
            raise Refused(EINVAL)
        if wanted:
            self._plug(zones[0], self._range(number))
        elif any(self._blocks().held[block] < FREE for block in self._folios(self._range(number))):
            raise Refused(EBUSY)
        else:
            self._unplug(zones[0], self._range(number))
        self._online[number] = wanted
        self._changed()

    def set_node(self, nid: int, *, online: bool) -> None:
        """Unplug all memory of a node, or plug it in again.

        The kernel puts none of its own pages into memory that was plugged in as movable. Here the
        kernel frees its pages instead, so that every node without processors can be unplugged.
        """
        for number, was_online in self._online.items():
            zones = self._zones_of(number)
            if {zone.spec.nid for zone in zones} != {nid} or was_online == online:
                continue
            plugged = self._range(number)
            for zone in zones:
                span = zone.spec.range
                part = Range(max(span.start, plugged.start), min(span.end, plugged.end))
                if online:
                    self._plug(zone, part)
                else:
                    for block in self._folios(part):
                        if self._blocks().held[block] == KERNEL:
                            self._blocks().put(block)
                    self._unplug(zone, part)
            self._online[number] = online
        self._set_spare(nid, online=online)
        self._changed()

    def _set_spare(self, nid: int, *, online: bool) -> None:
        """Add or remove the pages of a node that do not fill a whole folio."""
        for zone in self._memory.nodes[nid].zones:
            if online:
                zone.spare_pages = self._spare.pop(zone.spec.range, 0)
            else:
                self._spare[zone.spec.range], zone.spare_pages = zone.spare_pages, 0
            pages = zone.spare_pages - self._spare.get(zone.spec.range, 0)
            zone.spec = replace(zone.spec, managed_pages=zone.spec.managed_pages + pages)

    def _unplug(self, zone: Zone, part: Range) -> None:
        """Move everything to other nodes, the nearest first (offline_pages())."""
        memory = self._blocks()
        assert isinstance(zone, BlockZone)
        blocks = [block for block in self._folios(part) if memory.held[block] != RESERVED]
        inside = set(blocks)
        free = zone.free
        zone.free = [block for block in free if block not in inside]
        used = [block for block in blocks if memory.held[block] != FREE]
        targets = memory.fallback_order(zone.spec.nid)
        rooms = (
            other.room(other.spec.min_pages, memory.block_pages)
            for nid in targets
            for other in memory.nodes[nid].zones
        )
        if sum(rooms) < len(used):
            zone.free = free
            raise Refused(EBUSY)
        memory.migrate(used, targets)
        # migrate() freed the blocks that it moved. They must not be allocated again.
        zone.free = [block for block in zone.free if block not in inside]
        for block in blocks:
            memory.held[block] = ABSENT
        self._resize(zone, part, -len(blocks))
        memory.ranges[zone.spec.nid] = _without(memory.ranges[zone.spec.nid], part)

    def _plug(self, zone: Zone, part: Range) -> None:
        """Add the pages of the block as free memory (online_pages())."""
        memory = self._blocks()
        assert isinstance(zone, BlockZone)
        blocks = [block for block in self._folios(part) if memory.held[block] == ABSENT]
        for block in blocks:
            memory.held[block] = FREE
        zone.free[:0] = reversed(blocks)
        self._resize(zone, part, len(blocks))
        memory.ranges[zone.spec.nid] = _with(memory.ranges[zone.spec.nid], part)

    def _resize(self, zone: Zone, part: Range, blocks: int) -> None:
        pages = (part.end - part.start) // self._memory.page_bytes
        zone.spec = replace(
            zone.spec,
            present_pages=zone.spec.present_pages + (pages if blocks > 0 else -pages),
            managed_pages=zone.spec.managed_pages + blocks * self._memory.block_pages,
        )

    def _blocks(self) -> BlockMemory:
        """Return the memory. Groups of pages do not say which memory block a page is in."""
        if not isinstance(self._memory, BlockMemory):
            raise Refused(EBUSY)
        return self._memory

    def _folios(self, part: Range) -> range:
        size = self._memory.block_bytes
        return range(part.start // size, part.end // size)


def _without(ranges: tuple[Range, ...], part: Range) -> tuple[Range, ...]:
    found = []
    for known in ranges:
        if known.end <= part.start or part.end <= known.start:
            found.append(known)
            continue
        if known.start < part.start:
            found.append(Range(known.start, part.start))
        if part.end < known.end:
            found.append(Range(part.end, known.end))
    return tuple(found)


def _with(ranges: tuple[Range, ...], part: Range) -> tuple[Range, ...]:
    found: list[Range] = []
    for known in sorted((*ranges, part), key=lambda known: known.start):
        if found and found[-1].end == known.start:
            found[-1] = Range(found[-1].start, known.end)
        else:
            found.append(known)
    return tuple(found)
