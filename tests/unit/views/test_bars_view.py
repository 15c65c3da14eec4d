"""The charts of promotion and demotion by page: in `tierd why`, and on the page."""

from dataclasses import replace

import pytest

from tests.fixtures.snapshots import DEMOTE, PROMOTE, with_nodes
from tierd.record.snapshot import Snapshot, look
from tierd.views import bars_view, page_charts, whyview
from tierd.views.plots import ASCII

WIDE = 120


def at(second: float, share: float = 0.02, lag_s: float = 0.1, idle_s: float = 10.0) -> Snapshot:
    up = replace(PROMOTE, scheme="promote-pages-1-0", bar_seconds=lag_s, bar_share=share)
    down = replace(DEMOTE, scheme="demote-pages-0-1", bar_seconds=idle_s, bar_share=0.5)
    return replace(with_nodes(at=second), schemes=(DEMOTE, PROMOTE, down, up))


def lines(*seen: Snapshot, columns: int = WIDE) -> list[str]:
    return list(bars_view.drawn([look(one) for one in seen], 1, columns, ASCII))


def test_pages_move_on_the_outer_side_of_each_bar() -> None:
    scale, down, up = lines(at(0.0))[1:4]
    assert down.startswith("  node0, goes down")
    assert up.startswith("  node1, goes up")
    # Ten seconds without a touch is 0.1 touches a second; 0.1 s with one is 10.
    assert down.index("|") == scale.index(" 0.1 ") + 1
    assert up.index("|") == scale.index(" 10 ") + 1
    assert set(down[down.index("<") : down.index("|")]) == {"<"}
    assert set(up[up.index("|") + 1 : up.rindex(">") + 1]) == {">"}
    assert (down.split()[-1], up.split()[-1]) == ("0.1", "10")


@pytest.mark.parametrize(("lag_s", "idle_s"), [(1e-9, 1e-9), (1e9, 1e9)])
def test_a_bar_beyond_the_scale_is_drawn_at_its_end(lag_s: float, idle_s: float) -> None:
    scale, down, up = lines(at(0.0, lag_s=lag_s, idle_s=idle_s))[1:4]
    most = scale.index("0.001") + bars_view.WIDTH
    for row in (down, up):
        assert scale.index("0.001") < row.index("|") < most


def test_the_share_beyond_the_bar_is_drawn_by_reading() -> None:
    up = lines(at(0.0, share=0.0), at(1.0, share=0.04), at(2.0, share=0.02))[-1]
    assert up == f"  {'node1, goes up':<20}{ASCII.levels[0]}{ASCII.levels[8]}{ASCII.levels[4]} 2%"


def test_other_schemes_nodes_and_narrow_terminals_have_no_chart() -> None:
    by_region = replace(with_nodes(at=0.0), schemes=(DEMOTE, PROMOTE))
    assert lines(by_region) == []
    assert lines(at(0.0), columns=60) == []
    assert list(bars_view.drawn([look(at(0.0))], 7, WIDE, ASCII)) == []
    assert "touches per second" not in whyview.text([look(by_region)], 1, WIDE)
    assert "touches per second" in whyview.text([look(at(0.0))], 1, WIDE)


def test_the_page_has_a_chart_for_each_bar() -> None:
    seen = (at(0.0, share=0.2), at(1.0, share=0.01))
    down, up = page_charts.bars(seen)
    assert (down.title, up.title) == ("node0: pages to go down", "node1: pages to go up")
    assert [text for _, text in up.notes] == ["1% of the visited pages", "touched within 100 ms"]
    assert [text for _, text in down.notes] == ["50% of the visited pages", "not touched for 10 s"]
    assert up.series[0].points == ((0.0, 0.2), (1.0, 0.01))
    # The scale is round.
    assert up.most == 0.25
    assert down.most == 0.5
    assert list(page_charts.bars(())) == []
