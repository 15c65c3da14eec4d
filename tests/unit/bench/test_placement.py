"""Pages are put back to where they were, also if every node is nearly full."""

from array import array

import pytest

from bench import placement
from bench.placement import BATCH_PAGES, PAGE, NoRoom, Placement

FAST, SLOW = 0, 1
START = 1 << 30
PID = 7


class Guest:
    """Two nodes with room for so many pages each, and one process."""

    def __init__(self, here: bytes, room: tuple[int, int]) -> None:
        self.here = bytearray(here)
        self.free = [most - here.count(node) for node, most in enumerate(room)]
        self.calls: list[tuple[int, int]] = []

    def where(self, pid: int) -> Placement:
        assert pid == PID
        return Placement({START: bytes(self.here)})

    def move(self, pid: int, addresses: "array[int]", node: int) -> None:
        assert pid == PID
        self.calls.append((node, len(addresses)))
        for address in addresses:
            page = (address - START) // PAGE
            if self.here[page] == node:
                continue
            if not self.free[node]:
                raise NoRoom(f"node {node} is full")
            self.free[node] -= 1
            self.free[self.here[page]] += 1
            self.here[page] = node


def halves(count: int, first: int) -> bytes:
    return bytes([first] * count + [1 - first] * count)


@pytest.mark.parametrize("spare", [1, BATCH_PAGES // 2, BATCH_PAGES, 4 * BATCH_PAGES])
def test_pages_change_places_though_both_nodes_are_nearly_full(spare: int) -> None:
    pages = 3 * BATCH_PAGES
    guest = Guest(halves(pages, SLOW), (pages, pages + spare))
    wanted = Placement({START: halves(pages, FAST)})
    if spare < BATCH_PAGES:
        # A whole batch has to find room once.
        with pytest.raises(NoRoom):
            placement.put_back({PID: wanted}, (SLOW, FAST), guest.where, guest.move)
        return
    placement.put_back({PID: wanted}, (SLOW, FAST), guest.where, guest.move)
    assert bytes(guest.here) == wanted.nodes[START]
    assert max(count for _, count in guest.calls) == BATCH_PAGES


def test_what_is_where_it_was_is_not_moved() -> None:
    pages = halves(BATCH_PAGES, FAST)
    guest = Guest(pages, (BATCH_PAGES, BATCH_PAGES))
    placement.put_back({PID: Placement({START: pages})}, (SLOW, FAST), guest.where, guest.move)
    assert guest.calls == []


def test_one_way_moves_go_on_to_the_end() -> None:
    count = 2 * BATCH_PAGES + 5
    guest = Guest(bytes([FAST] * count), (count, count))
    wanted = Placement({START: bytes([SLOW] * count)})
    placement.put_back({PID: wanted}, (SLOW, FAST), guest.where, guest.move)
    assert set(guest.here) == {SLOW}
