"""Memory that is kept as groups of pages that are alike, for machines of any size.

* A cell is a piece of the physical addresses. It has groups: pages of one set that were looked at
  last at the same time. Where in its cell a page lies is not kept.
* How many pages of a group are young is drawn from the binomial distribution. So visits find what
  they would find if each page were kept.
* A walk visits all pages of a cell when it comes to its first address. So each page is visited once
  in a round, wherever a quota ends.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tierd.sim.binomial import drawn
from tierd.sim.cell_shares import CellShares
from tierd.sim.context_spec import Filter, FilterType
from tierd.sim.machine_model import MachineModel
from tierd.sim.memory import FIRST_SET, Accessed, Memory, Node, PageSet, Picked, Zone, matches
from tierd.sim.zones import ZoneSpec

# A group has one number for its set, for whether it is as it was filled, and for the time of the
# last look, from low to high bits.
_SET_MASK = 0xFF
_FILLED = 0x100
_LOOKED_SHIFT = 9

# How many shares of accessed pages are kept at once. Each kdamond has a sampling interval.
_KEPT_MAX = 8

# After so many changes for each cell, shares that nobody has asked for meanwhile are forgotten.
_CHANGES_MAX = 8

# The assumed time between two looks of kswapd at a page.
_LRU_ROUND_US = 1_000_000
_SCAN_ROUNDS = 2
_HAND_STRIDE = 1_000_003


class FreePages:
    """The free pages of a zone: a stack of cells, each with a number of pages."""

    def __init__(self) -> None:
        self._cells: list[tuple[int, int]] = []
        self.pages = 0

    def push(self, cell: int, pages: int) -> None:
        """Add free pages of a cell."""
        self.pages += pages
        if self._cells and self._cells[-1][0] == cell:
            pages += self._cells.pop()[1]
        self._cells.append((cell, pages))

    def pop(self, want: int) -> Iterator[tuple[int, int]]:
        """Take so many pages. Yield the cells, and the pages of each."""
        self.pages -= want
        while want:
            cell, pages = self._cells.pop()
            if pages > want:
                self._cells.append((cell, pages - want))
                pages = want
            want -= pages
            yield cell, pages


@dataclass(slots=True)
class GroupZone(Zone):
    """A zone of a node."""

    free: FreePages

    @property
    def nr_free(self) -> int:
        """The free memory, in pages."""
        return self.free.pages


class GroupMemory(Memory):
    """The memory of a machine, as groups of pages. Allocation is by page."""

    def __init__(self, machine: MachineModel, rng: Random, *, cell_pages: int) -> None:
        super().__init__(machine, rng, block_pages=1)
        self.cell_pages = cell_pages
        self.cell_bytes = cell_pages * self.page_bytes
        end = max(spec.range.end for spec in self._specs)
        self.cells: list[dict[int, int]] = [{} for _ in range(-(-end // self.cell_bytes))]
        self._shares: list[CellShares] = []
        # The cells that have changed, in order.
        self._changes: list[int] = []
        self._zones: list[GroupZone] = []
        self._zone_starts: list[int] = []
        self._totals: dict[tuple[int, int], int] = {}
        # The cells that have had pages of a set, for the sets whose rate has changed.
        self._held_in: dict[int, set[int]] = {}
        self._boot(self._zone)

    def _zone(self, spec: ZoneSpec) -> GroupZone:
        free = FreePages()
        left = spec.managed_pages
        # The lowest address is on top of the stack.
        first, end = spec.range.start // self.cell_bytes, -(-spec.range.end // self.cell_bytes)
        for cell in reversed(range(first, end)):
            start = max(spec.range.start, cell * self.cell_bytes)
            pages = (min(spec.range.end, (cell + 1) * self.cell_bytes) - start) // self.page_bytes
            if left and pages:
                free.push(cell, min(left, pages))
                left -= min(left, pages)
        zone = GroupZone(spec, left, free)
        self._zones.append(zone)
        self._zones.sort(key=lambda known: known.spec.range.start)
        self._zone_starts = [known.spec.range.start // self.cell_bytes for known in self._zones]
        return zone

    def _take_for_kernel(self, nid: int, blocks: int) -> None:
        for _ in self.take([nid], blocks):
            pass  # the kernel's pages are on no list

    # Sizes and contents.

    def pages_of_set(self, name: str, nid: int) -> int:
        """Return how many pages of a set are on the node."""
        return self._totals.get((nid, self.set_index(name)), 0)

    def lru_pages(self, start: int, end: int) -> dict[int, int]:
        """Return the number of pages on LRU lists in an address range, by node."""
        found: dict[int, int] = {}
        for cell in self._reached(start, end):
            if self.cells[cell]:
                nid = self.nid_of(cell)
                found[nid] = found.get(nid, 0) + sum(self.cells[cell].values())
        return found

    def nid_of(self, cell: int) -> int:
        """Return the node of a cell."""
        return self._zone_of(cell).spec.nid

    # Changes by the workload.

    def set_rate(self, name: str, rate_hz: float) -> None:
        """Change the access rate of a set."""
        super().set_rate(name, rate_hz)
        value = self.set_index(name)
        if value not in self._held_in:
            self._held_in[value] = {cell for cell, _, _ in self.groups(value)}
        self._changes += self._held_in[value]

    def _fault_in(self, name: str, blocks: int, nids: Sequence[int]) -> int:
        key = _FILLED | self.set_index(name)
        placed = 0
        for cell, pages in self.take(nids, blocks):
            self.add(cell, key, pages)
            placed += pages
        return placed

    def release(self, name: str, pages: int, nid: int | None = None) -> int:
        """Free pages of a set, lowest address first, on one node or on all."""
        value, left = self.set_index(name), pages
        for cell, key, count in self.groups(value, nid):
            self.remove(cell, key, min(left, count))
            self.put(cell, min(left, count))
            left -= min(left, count)
            if not left:
                break
        return pages - left

    def groups(self, value: int, nid: int | None = None) -> list[tuple[int, int, int]]:
        """Return the groups of a set, on one node or on all: cell, key and pages."""
        return [
            (cell, key, pages)
            for cell, known in enumerate(self.cells)
            for key, pages in known.items()
            if key & _SET_MASK == value and (nid is None or self.nid_of(cell) == nid)
        ]

    def mix(self, names: Sequence[str], rng: Random) -> None:
        """Give each set as many of the pages of these sets as it had, but others."""
        values = [self.set_index(name) for name in names]
        left = [sum(self.pages_of_set(name, nid) for nid in self.nodes) for name in names]
        everything = sum(left)
        for cell, known in enumerate(self.cells):
            after = {key: pages for key, pages in known.items() if key & _SET_MASK not in values}
            count = sum(known.values()) - sum(after.values())
            if not count:
                continue
            others = everything
            everything -= count
            for at, value in enumerate(values):
                # As many as a sample without replacement has on average; never more than are left.
                others -= left[at]
                pages = drawn(rng, count, left[at] / (others + left[at])) if left[at] else 0
                pages = min(left[at], max(pages, count - others))
                left[at] -= pages
                count -= pages
                if pages:
                    after[_FILLED | value] = pages
            self._set(cell, after)

    def shift(
        self, hot: str, cold: str, share: float, rng: Random, heats_on: int | None = None
    ) -> None:
        """Swap the heat of a run of pages: data that is used together is stored together."""
        heated, cooled = self.set_index(hot), self.set_index(cold)
        ways = ((heated, cooled), (cooled, heated))
        found = [self.groups(heated), self.groups(cooled, heats_on)]
        pages = [sum(count for _, _, count in groups) for groups in found]
        count = min(round(pages[0] * share), pages[1])
        for (_, other), groups in zip(ways, found, strict=True):
            start = rng.randrange(len(groups)) if groups else 0
            left = count
            for cell, key, mine in (groups[start:] + groups[:start]) if left else ():
                self.remove(cell, key, min(left, mine))
                # One of the two sets has accessed these pages recently.
                self.add(cell, _FILLED | other, min(left, mine))
                left -= min(left, mine)
                if not left:
                    break

    def exchange(self, cells: Sequence[int], name: str) -> None:
        """Give all pages of cells to another set. Their heat changes, but not their place."""
        value = self.set_index(name)
        for cell in cells:
            for key, pages in list(self.cells[cell].items()):
                self.remove(cell, key, pages)
                self.add(cell, _FILLED | value, pages)

    # Accesses.

    def accessed(self, sample_us: int) -> Accessed:
        """Return what tells the share of a range that is accessed within a sample."""
        before, size = self._shares_of(sample_us).before, self.cell_bytes
        last, sum_before = 0, 0.0

        def share(start: int, end: int) -> float:
            nonlocal last, sum_before
            # Most ranges begin where the last one ended.
            first = sum_before if start == last else before(start / size)
            last, sum_before = end, before(end / size)
            return max(0.0, (sum_before - first) * self.page_bytes / (end - start))

        return share

    def _shares_of(self, sample_us: int) -> CellShares:
        """Return the accessed pages of each cell, as the cells are now."""
        known = next((one for one in self._shares if one.sample_us == sample_us), None)
        chances = [0.0] * FIRST_SET + [one.accessed_within(sample_us) for one in self.sets]

        def pages(cell: int) -> float:
            return sum(
                [count * chances[key & _SET_MASK] for key, count in self.cells[cell].items()]
            )

        if known is None:
            known = CellShares(sample_us, len(self.cells), pages)
            self._shares = [*self._shares[-_KEPT_MAX + 1 :], known]
        else:
            known.update(set(self._changes[known.changes :]), pages)
        known.changes = len(self._changes)
        self._forget()
        return known

    def _forget(self) -> None:
        """Forget changes that all shares know, and shares that know few of them."""
        if len(self._changes) > _CHANGES_MAX * len(self.cells):
            self._shares = [one for one in self._shares if one.changes == len(self._changes)]
            self._changes.clear()
            for one in self._shares:
                one.changes = 0

    def pick(
        self,
        start: int,
        end: int,
        filters: Sequence[Filter],
        now_us: int,
        unsampled: float,
        *,
        follows: bool = False,
    ) -> "PickedGroups":
        """Return the groups of a range that are on LRU lists and that filters let pass."""
        del follows  # A cell is picked with its first address only.
        found: list[tuple[int, int, int]] = []
        looked_at = 0
        chances: dict[int, float] = {}
        looks = any(one.type is FilterType.young for one in filters)
        for cell in self._reached(start, end):
            known = self.cells[cell]
            if not known:
                continue
            looked_at += sum(known.values())
            if not filters:
                found += [(cell, key, pages) for key, pages in known.items()]
                continue
            after: dict[int, int] = {}
            for key, pages in known.items():
                if key not in chances:
                    chances[key] = self._young(key, now_us, unsampled)
                passed, others = self._sift(filters, key, pages, chances[key], now_us)
                for group, count in (*passed, *others):
                    after[group] = after.get(group, 0) + count
                found += [(cell, group, count) for group, count in passed]
            if looks:
                self.cells[cell] = after
        return PickedGroups(self, found, looked_at)

    def _reached(self, start: int, end: int) -> range:
        """Return the cells whose first address is in a range."""
        size = self.cell_bytes
        return range(-(-start // size), min(-(-end // size), len(self.cells)))

    def _young(self, key: int, now_us: int, unsampled: float) -> float:
        """Return the probability that a page of a group is young."""
        since_us = max(0, now_us - (key >> _LOOKED_SHIFT))
        touched = self.set_of(key).accessed_within(since_us)
        return unsampled + (1 - unsampled) * touched if key & _FILLED else touched

    def _sift(
        self, filters: Sequence[Filter], key: int, pages: int, young: float, now_us: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the pages of a group that filters let pass, and the others."""
        passed: list[tuple[int, int]] = []
        others: list[tuple[int, int]] = []
        page_set = self.set_of(key)
        for known in filters:
            if known.type is FilterType.young:
                touched = drawn(self._rng, pages, young)
                # The look makes them old: a second filter finds no young page.
                key, young = now_us << _LOOKED_SHIFT | key & _SET_MASK, 0.0
                decided = touched if known.matching else pages - touched
            else:
                alike = matches(known, page_set, self.page_bytes) == known.matching
                decided = pages if alike else 0
            if decided:
                (passed if known.allow else others).append((key, decided))
                pages -= decided
        if pages:
            # damos_filters_default_reject(): if the last filter allows, all others are rejected.
            (others if filters[-1].allow else passed).append((key, pages))
        return passed, others

    def set_of(self, key: int) -> PageSet:
        """Return the set of a group."""
        return self.sets[(key & _SET_MASK) - FIRST_SET]

    # Pages that come and go.

    def add(self, cell: int, key: int, pages: int) -> None:
        """Add pages to a cell."""
        if not pages:
            return
        known = self.cells[cell]
        known[key] = known.get(key, 0) + pages
        total = self.nid_of(cell), key & _SET_MASK
        self._totals[total] = self._totals.get(total, 0) + pages
        self._changes.append(cell)
        if key & _SET_MASK in self._held_in:
            self._held_in[key & _SET_MASK].add(cell)

    def remove(self, cell: int, key: int, pages: int) -> None:
        """Take pages out of a cell. They are not free yet."""
        if not pages:
            return
        known = self.cells[cell]
        left = known[key] - pages
        assert left >= 0
        if left:
            known[key] = left
        else:
            del known[key]
        self._totals[self.nid_of(cell), key & _SET_MASK] -= pages
        self._changes.append(cell)

    def _set(self, cell: int, groups: dict[int, int]) -> None:
        """Replace the groups of a cell by as many pages of other sets."""
        nid = self.nid_of(cell)
        for sign, known in ((-1, self.cells[cell]), (1, groups)):
            for key, pages in known.items():
                total = nid, key & _SET_MASK
                self._totals[total] = self._totals.get(total, 0) + sign * pages
                if key & _SET_MASK in self._held_in:
                    self._held_in[key & _SET_MASK].add(cell)
        self.cells[cell] = groups
        self._changes.append(cell)

    def take(self, nids: Sequence[int], want: int) -> Iterator[tuple[int, int]]:
        """Allocate up to `want` pages. Yield the cells, and the pages of each."""
        for zone, count in self.grants(nids, want):
            assert isinstance(zone, GroupZone)
            yield from zone.free.pop(count)

    def put(self, cell: int, pages: int) -> None:
        """Free pages of a cell."""
        if pages:
            self._zone_of(cell).free.push(cell, pages)
            self.counters.pgfree += pages

    def _victims(self, node: Node, now_us: int) -> Iterator["PickedGroups"]:
        """Yield pages that were not accessed since the scan last visited them, cell by cell."""
        cells = [
            cell
            for part in self.ranges[node.nid]
            for cell in range(part.start // self.cell_bytes, part.end // self.cell_bytes)
        ]
        old = (Filter(FilterType.young, matching=True, allow=False),)
        for step in range(_SCAN_ROUNDS * len(cells)):
            node.hand = (node.hand + _HAND_STRIDE) % len(cells)
            start = cells[node.hand] * self.cell_bytes
            self.counters.pgscan_kswapd += sum(self.cells[cells[node.hand]].values())
            looked_us = now_us + step // len(cells) * _LRU_ROUND_US
            found = self.pick(start, start + 1, old, looked_us, 1.0)
            if found.pages:
                yield found

    def _zone_of(self, cell: int) -> GroupZone:
        return self._zones[bisect_right(self._zone_starts, cell) - 1]


class PickedGroups(Picked):
    """Pages that a scheme has come to: cell, group and number of pages."""

    def __init__(
        self, memory: GroupMemory, groups: list[tuple[int, int, int]], looked_at: int = 0
    ) -> None:
        self.pages = sum([pages for _, _, pages in groups])
        self.looked_at = looked_at
        self.groups = groups
        self._memory = memory

    def away_from(self, nid: int) -> "PickedGroups":
        """Return those that are on another node."""
        memory = self._memory
        return PickedGroups(memory, [one for one in self.groups if memory.nid_of(one[0]) != nid])

    def migrate(self, nids: Sequence[int]) -> tuple[int, "PickedGroups"]:
        """Move them to the first node with room. Return how many pages moved, and the others.

        The first page that finds no room counts as a failure and ends the batch, as -ENOMEM does.
        """
        memory = self._memory
        left = list(reversed(self.groups))
        freed: list[tuple[int, int]] = []
        moved = 0
        for target, room in memory.take(nids, self.pages):
            moved += room
            while room:
                cell, key, pages = left.pop()
                if pages > room:
                    left.append((cell, key, pages - room))
                    pages = room
                room -= pages
                memory.remove(cell, key, pages)
                memory.add(target, key, pages)
                freed.append((cell, pages))
        for cell, pages in freed:
            memory.put(cell, pages)
        memory.counters.pgmigrate_success += moved
        if moved < self.pages:
            memory.counters.pgmigrate_fail += 1
        return moved, PickedGroups(memory, list(reversed(left)))

    def free_files(self) -> int:
        """Free the pages that have a file behind them. Return how many these are."""
        memory = self._memory
        gone = [one for one in self.groups if not memory.set_of(one[1]).anon]
        for cell, key, pages in gone:
            memory.remove(cell, key, pages)
            memory.put(cell, pages)
        return sum(pages for _, _, pages in gone)

    def swap_out(self) -> int:
        """Free the other pages, as far as there is room in swap. Return how many these are."""
        memory, out = self._memory, 0
        for cell, key, pages in self.groups:
            gone = memory.swaps(memory.nid_of(cell), pages) if memory.set_of(key).anon else 0
            if gone:
                memory.remove(cell, key, gone)
                memory.put(cell, gone)
                out += gone
        return out

    def isolate(self) -> None:
        """Take them off their LRU list for good: nothing finds or frees them any more."""
        for cell, key, pages in self.groups:
            self._memory.remove(cell, key, pages)
