"""The page as a document: what it says, that names in it are harmless, and that it is complete."""

import re
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.fixtures.snapshots import FAST, MIB, SLOW, SNAPSHOT, UNKNOWN, parked, with_nodes
from tierd.record.chronicle import HistoryReading, reading_of
from tierd.record.snapshot import EventStatus, Snapshot, State, document
from tierd.views import page, page_memory, statusview, whyview
from tierd.views.charts import WIDTH, Chart, Series, Span, figure
from tierd.views.history import GAP_S_MAX
from tierd.views.markup import coded, escaped
from tierd.views.page import Look

STYLE, SCRIPT = "b{color:red}", "1;"

# Closes every tag that it may stand in, and turns text around.
HOSTILE = (
    "</code></b>\"'><script>alert(1)</script><img src=//evil.invalid onerror=x>&lt;\x1b\u202e`"
)

VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """Reads a document, and fails if its tags are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} stands there twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"not closed: {reader.open}"
    return reader


def readings(
    snapshot: Snapshot, count: int = 30, every_s: float = 10.0
) -> Iterator[HistoryReading]:
    for number in range(count):
        yield reading_of(replace(snapshot, at=snapshot.at - (count - 1 - number) * every_s))


def look(snapshot: Snapshot | None = SNAPSHOT, recent: tuple[Snapshot, ...] | None = None) -> Look:
    seen = tuple(readings(snapshot)) if snapshot else ()
    now = snapshot.at + 1.0 if snapshot else 0.0
    return Look(snapshot, recent or ((snapshot,) if snapshot else ()), seen, "db-17", now)


def shown(snapshot: Snapshot | None = SNAPSHOT) -> Reader:
    return read(page.page(look(snapshot), STYLE, SCRIPT))


def with_texts(value: Any, text: str) -> Any:
    """Return a value of frozen dataclasses with every text in it replaced, but for states."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {one.name: with_texts(getattr(value, one.name), text) for one in fields(value)}
        return replace(value, **found)
    if isinstance(value, tuple):
        return tuple(with_texts(one, text) for one in value)
    return text if type(value) is str else value


HOSTILE_SNAPSHOT: Snapshot = with_texts(
    replace(
        SNAPSHOT,
        degraded=("x",),
        conflicts=("x", "y"),
        events=(EventStatus(1.0, "running", "x"), EventStatus(2.0, "running", "y")),
    ),
    HOSTILE,
)
SNAPSHOTS = {
    "active": SNAPSHOT,
    "parked": parked(),
    "paused": replace(SNAPSHOT, state=State.paused),
    "degraded": replace(SNAPSHOT, state=State.degraded, reason="why", schemes=(), kdamonds=()),
    "unknown": UNKNOWN,
    "nothing": replace(SNAPSHOT, nodes=(), schemes=(), goals=(), kdamonds=(), events=()),
    "hostile": HOSTILE_SNAPSHOT,
    "starting": None,
}


@pytest.mark.parametrize("snapshot", SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_every_page_is_well_formed_and_brings_all_that_it_needs(snapshot: Snapshot | None) -> None:
    reader = shown(snapshot)
    assert [len(reader.all(tag)) for tag in ("html", "head", "main", "title", "h1")] == [1] * 5
    assert len(reader.all("script")) == len(reader.all("style")) == 1
    for tag, attributes in reader.tags:
        assert not {name for name in attributes if name == "style" or name.startswith("on")}
        assert not attributes.get("src"), tag
        assert re.match(r"(\w*|data:image/svg\+xml,.*)$", attributes.get("href") or ""), tag
    assert len({one["id"] for _, one in reader.tags if "id" in one}) == sum(
        "id" in one for _, one in reader.tags
    )


def test_names_of_others_are_shown_and_never_act() -> None:
    text = page.page(look(HOSTILE_SNAPSHOT), STYLE, SCRIPT)
    reader = read(text)
    assert not reader.all("img")
    assert "<script>alert(1)</script>" in reader.text
    assert "\x1b" not in text
    assert "\u202e" not in text
    # A name with as many backquotes as it likes closes its tags.
    assert text.count("<code>") == text.count("</code>")
    text.encode()


def test_bytes_of_a_name_that_are_not_utf_8_are_shown_as_numbers() -> None:
    name = b"/evil\xff".decode("utf-8", "surrogateescape")
    text = page.page(look(replace(SNAPSHOT, conflicts=(name,))), STYLE, SCRIPT)
    assert "/evil\\xff" in text
    text.encode()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a < b & 'c'", "a &lt; b &amp; &#x27;c&#x27;"),
        ('"', "&quot;"),
        ("a\x00b", "a\\u0000b"),
    ],
)
def test_what_has_a_meaning_in_html_is_escaped(text: str, html: str) -> None:
    assert escaped(text) == html


def test_commands_in_a_text_are_code() -> None:
    assert coded("see `tierd why 1` <") == "see <code>tierd why 1</code> &lt;"


def test_the_verdict_is_that_of_status() -> None:
    status = document(SNAPSHOT)
    verdict = statusview.verdict(status, SNAPSHOT.at)
    state, _, said = verdict.partition(";")[0].partition(": ")
    assert f"{state.lower()} {said}" in shown().text


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (SNAPSHOT, "Promotes 30 MB/s 200 MiB in all"),
        (SNAPSHOT, "Demotes 40 MB/s 300 MiB in all"),
        (SNAPSHOT, "Hot 50 MiB on slower nodes"),
        (SNAPSHOT, "Cold 280 MiB on faster nodes"),
        (SNAPSHOT, "Kdamonds use 1% of a CPU since the start"),
        (SNAPSHOT, "Runs for 1 h 2 of 2 kdamonds run"),
        (SNAPSHOT, "node0 memory_tier4 1000 MiB 880 MiB (88%) 120 MiB (12%) 100 MiB, kept - 280"),
        (SNAPSHOT, "No other program uses DAMON or moves pages."),
        (SNAPSHOT, "running started"),
        (SNAPSHOT, "node1 runs 12 0 0.5%"),
        (replace(SNAPSHOT, conflicts=("numad (pid 7)",)), "numad (pid 7)"),
        (replace(SNAPSHOT, machine="two-tier"), "SIMULATED machine two-tier"),
        (with_nodes(fast=replace(FAST, free_bytes=0)), "100 MiB, short"),
        (UNKNOWN, "why"),
        (replace(SNAPSHOT, kdamonds=()), "No kdamond runs."),
        (replace(SNAPSHOT, schemes=()), "No scheme runs."),
        (None, "tierd has not read the machine yet"),
    ],
)
def test_the_page_says(snapshot: Snapshot | None, words: str) -> None:
    assert words in shown(snapshot).text


def test_each_scheme_says_what_why_says() -> None:
    status = document(SNAPSHOT)
    text = shown().text.lower()
    for scheme in status["schemes"]:
        assert whyview.sentence("active", scheme).lower() in text
        assert all(said.lower() in text for said in whyview.figures(scheme))


def test_two_schemes_of_one_way_can_be_told_apart() -> None:
    by_page = replace(SNAPSHOT.schemes[0], scheme="demote-pages-0-1")
    text = shown(replace(SNAPSHOT, schemes=(SNAPSHOT.schemes[0], by_page))).text
    assert "to slower memory 40 MB/s" in text
    assert "to slower memory, by page 40 MB/s" in text


def test_commands_in_a_reason_for_being_degraded_are_code() -> None:
    text = page.page(look(replace(SNAPSHOT, degraded=("see `tierd doctor`",))), STYLE, SCRIPT)
    assert "<li>see <code>tierd doctor</code></li>" in text


def test_the_newest_decision_stands_first() -> None:
    before = replace(parked(), at=SNAPSHOT.at - 5)
    text = read(page.page(look(recent=(before, SNAPSHOT)), STYLE, SCRIPT)).text
    assert text.index("up to 30 MB/s") < text.index("parked: because of node 0")


def test_a_loop_that_stands_still_is_told() -> None:
    late = replace(look(), now=SNAPSHOT.at + statusview.STALE_S + 1)
    assert "stuck no new reading for 31 s" in read(page.page(late, STYLE, SCRIPT)).text


def test_an_event_of_another_day_has_its_day() -> None:
    old = EventStatus(SNAPSHOT.at - 86_400, "reload", "")
    assert "12-31 02:46Z reload" in shown(replace(SNAPSHOT, events=(old,))).text


def test_only_the_newest_events_are_shown() -> None:
    events = tuple(EventStatus(float(number), "reload", f"<{number}>") for number in range(50))
    text = shown(replace(SNAPSHOT, events=events)).text
    assert "<49>" in text
    assert "<37>" not in text


def widths(kind: str, text: str) -> list[int]:
    return [int(one) for one in re.findall(rf'<rect class="{kind}" x="\d+" width="(\d+)"', text)]


def test_a_bar_has_the_shares_of_the_node() -> None:
    text = page.page(look(), STYLE, SCRIPT)
    # node0: 880 MiB of 1000 used, 280 of these cold. node1: 1000 MiB of 4000 used, 50 hot.
    assert widths("cold", text) == [280]
    assert widths("hot", text) == [12]
    assert widths("used", text) == [600, 238]


@pytest.mark.parametrize("free", [0, 500, 1000])
def test_a_bar_is_as_long_as_what_is_used_whatever_the_sensors_say(free: int) -> None:
    node = replace(FAST, free_bytes=free * MIB, hot_bytes=900 * MIB, cold_bytes=1000 * MIB)
    text = page_memory.bars([asdict(node)])
    assert sum(sum(widths(kind, text)) for kind in ("hot", "used", "cold")) == 1000 - free


CHART = Chart("Moved", (("room", "now 1"),), (), 100.0, lambda value: f"{value:.0f} B", None)
SPAN = Span(0.0, 720.0)


def drawn(*points: tuple[float, float], mark: float | None = None) -> str:
    return figure(replace(CHART, series=(Series("room", points),), mark=mark), SPAN)


def test_a_chart_draws_its_points() -> None:
    assert 'class="line room" d="M0 100L60 50L120 0H120"' in drawn((0, 0), (60, 50), (120, 100))


def test_a_chart_says_what_it_shows_to_those_who_cannot_see_it() -> None:
    assert read(drawn((0, 0))).all("svg")[0]["aria-label"] == "Moved; now 1"


def test_a_chart_is_interrupted_where_nothing_is_known() -> None:
    text = drawn((0, 10), (60, 10), (60 + GAP_S_MAX + 10, 20), (240, 20))
    assert 'd="M0 90L60 90H60M160 80L240 80H240"' in text
    # After the last point nothing is known either.
    assert [one["d"] for one in read(text).all("path") if one["class"] == "unknown"] == [
        "M60 0H160V100H60z",
        f"M240 0H{WIDTH}V100H240z",
    ]


def test_a_single_reading_is_seen() -> None:
    assert 'class="line room" d="M60 90H61"' in drawn((60, 10))


def test_a_chart_without_values_is_one_in_which_nothing_is_known() -> None:
    paths = read(drawn()).all("path")
    assert [one["d"] for one in paths if one["class"] == "unknown"] == [f"M0 0H{WIDTH}V100H0z"]


def test_the_target_is_a_line() -> None:
    assert f'class="mark" d="M0 25H{WIDTH}"' in drawn((0, 10), mark=75.0)


def test_two_directions_go_away_from_the_axis() -> None:
    both = (Series("promote", ((0, 100), (60, 50))), Series("demote", ((0, 50),), down=True))
    text = figure(replace(CHART, series=both), SPAN)
    assert 'class="line promote" d="M0 0L60 25H60"' in text
    assert 'class="line demote" d="M0 75H1"' in text


@pytest.mark.parametrize(
    ("count", "every_s", "said"),
    [(1, 10.0, "5 min"), (30, 10.0, "5 min"), (32, 10.0, "15 min"), (100, 10.0, "1 h")],
)
def test_the_charts_show_as_long_as_there_are_readings(
    count: int, every_s: float, said: str
) -> None:
    kept = tuple(readings(SNAPSHOT, count, every_s))
    text = read(page.page(replace(look(), readings=kept), STYLE, SCRIPT)).text
    assert f"the last {said}, UTC" in text


def test_there_is_a_chart_for_each_node_and_for_the_room_on_a_fast_one() -> None:
    reader = shown()
    titles = [one["aria-label"] for one in reader.all("svg")][2:]
    assert [str(one).partition(";")[0] for one in titles] == [
        "Moved",
        "Cost of kdamonds",
        "node0 free",
        "node0 used",
        "node1 used",
    ]


def test_the_charts_are_in_the_order_of_the_bars_and_nodes_that_have_gone_come_last() -> None:
    """With HBM the node with the larger number is often the faster one."""
    fast, slow = replace(FAST, numa_node=2), replace(SLOW, numa_node=1)
    before = with_nodes(replace(FAST, numa_node=0, headroom_target_bytes=None), fast)
    now = with_nodes(fast, slow)
    seen = (reading_of(replace(before, at=now.at - 10)), reading_of(now))
    reader = read(page.page(replace(look(now), readings=seen), STYLE, SCRIPT))
    titles = [str(one["aria-label"]).partition(";")[0] for one in reader.all("svg")]
    assert titles[-3:] == ["node2 used", "node1 used", "node0 used"]


def test_the_scale_of_rates_is_round_and_does_not_blow_up_noise() -> None:
    schemes = tuple(replace(one, applied_bytes_total=0) for one in SNAPSHOT.schemes)
    before = reading_of(replace(SNAPSHOT, at=SNAPSHOT.at - 10, schemes=schemes))
    moved = replace(look(), readings=(before, reading_of(SNAPSHOT)))
    # 300 MiB in 10 s are 31.5 MB/s.
    assert "50 MB/s 0 50 MB/s" in read(page.page(moved, STYLE, SCRIPT)).text
    assert "1 MB/s 0 1 MB/s" in shown().text


def test_page_by_page_needs_two_readings() -> None:
    up = replace(SNAPSHOT.schemes[1], bar_seconds=0.1, bar_share=0.02)
    seen = tuple(replace(SNAPSHOT, at=SNAPSHOT.at + n, schemes=(up,)) for n in range(2))
    once, twice = (
        page.page(Look(seen[-1], seen[:count], (), "host", seen[-1].at), STYLE, SCRIPT)
        for count in (1, 2)
    )
    assert 'id="bars"' not in once
    assert 'id="bars"' in twice
    assert "touched within 100 ms" in twice
    without = page.page(
        Look(SNAPSHOT, (SNAPSHOT, SNAPSHOT), (), "host", SNAPSHOT.at), STYLE, SCRIPT
    )
    assert 'id="bars"' not in without
