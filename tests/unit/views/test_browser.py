"""The pages and pictures in a real browser: nothing sticks out, nothing is forbidden, and the page
of a running tierd is live."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests import browser
from tests.browser import Tab
from tests.fixtures.answers import ANSWER, REPORT
from tests.fixtures.snapshots import SNAPSHOT
from tests.unit.views.test_history import HOUR
from tests.unit.views.test_page import HOSTILE_SNAPSHOT
from tierd.loop.service import Published
from tierd.loop.status_page import Sources, StatusPage
from tierd.record.chronicle import HistoryReading, reading_of
from tierd.record.snapshot import Snapshot
from tierd.serving import webserver
from tierd.views import forecast_picture, picture, report

# Chromium is large, so it is installed only in the turn of these tests.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(600)]

# Twenty rounds of the page's script.
LONG_MS = 40_000

# A phone, half a screen, a large screen.
WIDTHS = (390, 900, 1440)
SCHEMES = ("light", "dark")


@dataclass
class Site:
    """A page that is served, and whose snapshots a test publishes."""

    url: str
    published: Published = field(default_factory=Published)

    def publish(self, snapshot: Snapshot) -> None:
        self.published.add(snapshot, None)

    def readings(self, _since: float, until: float, most: int) -> tuple[HistoryReading, ...]:
        return tuple(
            reading_of(replace(self.published.recent[-1], at=until - 10.0 * number))
            for number in reversed(range(most))
        )


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser.tab(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def site(tab: Tab) -> Iterator[Site]:
    listener = webserver.listen("127.0.0.1:0")
    made = Site(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    sources = Sources(
        lambda: made.published.recent, made.readings, "db-17", lambda: made.published.recent[-1].at
    )
    server = webserver.serve(listener, {"/": StatusPage(sources)})
    tab.renew()
    yield made
    server.stop()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("snapshot", [SNAPSHOT, HOSTILE_SNAPSHOT], ids=["well", "hostile"])
def test_nothing_sticks_out_and_nothing_is_forbidden(
    tab: Tab, site: Site, tmp_path: Path, snapshot: Snapshot, width: int, scheme: str
) -> None:
    site.publish(snapshot)
    tab.show(width, 900, scheme)
    tab.open(site.url)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.screenshot(tmp_path / f"{width}-{scheme}.png")
    assert (tmp_path / f"{width}-{scheme}.png").read_bytes().startswith(b"\x89PNG")
    assert tab.complaints == []
    assert set(tab.fetched) == {site.url}


# The visible texts that lie over each other, as pairs. A label without room would be drawn over its
# neighbour.
OVERLAPS = """
(() => {
  const seen = [...document.querySelectorAll("body *, text")].flatMap((one) =>
    [...one.childNodes].filter((node) => node.nodeType === 3 && node.data.trim()
      && !one.closest("script, style, thead") && getComputedStyle(one).visibility !== "hidden"
    ).map((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [node.data, [...range.getClientRects()]];
    }));
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  return seen.flatMap(([text, rects], i) => seen.slice(i + 1)
    .filter(([_, others]) => rects.some((a) => others.some((b) => over(a, b))))
    .map(([other]) => `${text} / ${other}`));
})()
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_lies_over_another_and_the_bars_have_room(tab: Tab, site: Site, width: int) -> None:
    site.publish(SNAPSHOT)
    tab.show(width, 900, "light")
    tab.open(site.url)
    assert tab.evaluate(OVERLAPS) == []
    bar = "document.querySelector('.nodes .bar svg').getBoundingClientRect().width"
    assert tab.evaluate(bar) >= width / 5


def test_a_dark_page_is_dark(tab: Tab, site: Site) -> None:
    site.publish(SNAPSHOT)
    found = {}
    for scheme in SCHEMES:
        tab.show(WIDTHS[-1], 900, scheme)
        tab.open(site.url)
        colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        found[scheme] = sum(int(part) for part in colour[4:-1].split(","))
    assert found["dark"] < 128 < 600 < found["light"]


# The ratio of luminance of each text to the card that it stands on, as WCAG 2 computes it.
CONTRAST = """
(() => {
  const light = (css) => css.match(/[\\d.]+/g).slice(0, 3).map((one) => {
    const part = one / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (one) => {
    const found = getComputedStyle(one).backgroundColor;
    return found === "rgba(0, 0, 0, 0)" ? ground(one.parentElement) : found;
  };
  const texts = [...document.querySelectorAll("body *")].filter((one) =>
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
      && one.tagName !== "SCRIPT");
  return Math.min(...texts.map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
})()
"""


# WCAG asks for more between things that touch, but this is the ground of a chart and no sign.
SEEN_MIN = 1.08


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_time_without_tierd_can_be_seen_in_a_chart(tab: Tab, site: Site, scheme: str) -> None:
    site.publish(SNAPSHOT)
    tab.show(WIDTHS[-1], 900, scheme)
    tab.open(site.url)
    # The contrast of a text in the colour of that area.
    tab.evaluate(
        "document.body.innerHTML = '<section>grey</section>';"
        "document.querySelector('section').style.color = 'var(--unknown)'; 0"
    )
    assert tab.evaluate(CONTRAST) >= SEEN_MIN


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("state", ["active", "degraded", "paused"])
def test_all_text_can_be_read(tab: Tab, site: Site, scheme: str, state: str) -> None:
    site.publish(replace(SNAPSHOT, state=type(SNAPSHOT.state)(state)))
    tab.show(WIDTHS[-1], 900, scheme)
    tab.open(site.url)
    # 4.5 is what WCAG 2.2 asks for (AA, 1.4.3).
    assert tab.evaluate(CONTRAST) >= 4.5


def test_the_page_follows_while_it_is_seen_and_rests_while_it_is_hidden(
    tab: Tab, site: Site
) -> None:
    site.publish(SNAPSHOT)
    tab.open(site.url)
    # A mark that a reload, or a replaced section, would lose.
    tab.evaluate("document.querySelector('#others').mark = 1; 0")
    site.publish(replace(SNAPSHOT, at=SNAPSHOT.at + 1, reason="", conflicts=(), events=()))
    tab.pass_time(LONG_MS)
    assert "Nothing has happened yet." in tab.evaluate("document.body.innerText")
    assert tab.evaluate("document.querySelector('#others').mark") == 1
    seen = len(tab.fetched)
    assert seen > 5
    tab.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange')); 0"
    )
    tab.pass_time(LONG_MS)
    # At most the request that was under way.
    assert len(tab.fetched) <= seen + 1
    tab.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); 0")
    tab.pass_time(LONG_MS)
    assert len(tab.fetched) > seen + 5
    assert tab.complaints == []


def test_without_a_script_all_is_there_and_is_loaded_again(tab: Tab, site: Site) -> None:
    site.publish(SNAPSHOT)
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(site.url)
    assert "headroom is kept" in tab.evaluate("document.body.innerText")
    assert tab.evaluate("document.querySelector('meta[http-equiv=refresh]').content") == "10"


def test_when_tierd_is_gone_the_page_says_so_and_comes_back(tab: Tab, site: Site) -> None:
    site.publish(SNAPSHOT)
    tab.open(site.url)
    shown = "document.querySelector('#notice').offsetHeight > 0"
    assert not tab.evaluate(shown)
    for offline in (True, False):
        tab.ask(
            "Network.emulateNetworkConditions",
            offline=offline, latency=0, downloadThroughput=-1, uploadThroughput=-1,
        )  # fmt: skip
        tab.pass_time(LONG_MS)
        assert tab.evaluate(shown) is offline


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("slices", [6, 24])
def test_the_page_of_a_report_fits_and_can_be_read(
    tab: Tab, tmp_path: Path, slices: int, width: int, scheme: str
) -> None:
    shown = replace(REPORT, slices=(REPORT.slices * 4)[:slices])
    (tmp_path / "report.html").write_text(report.as_page(shown))
    tab.renew()
    tab.show(width, 900, scheme)
    tab.open((tmp_path / "report.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate(CONTRAST) >= 4.5
    assert tab.complaints == []


# The texts of a picture that are not wholly in it.
CUT_OFF = """
[...document.querySelectorAll("text")].filter((one) => {
  const box = one.getBBox(), all = document.documentElement.viewBox.baseVal;
  return box.x < 0 || box.y < 0 || box.x + box.width > all.width
    || box.y + box.height > all.height;
}).map((one) => one.textContent)
"""

LONG_NAME = "a-profile-with-a-long-name-" * 6
PICTURES = {
    "forecast": forecast_picture.svg(ANSWER),
    "forecast, marks at the end": forecast_picture.svg(
        replace(ANSWER, about=LONG_NAME, knee=3, least_bytes=ANSWER.points[3].fast_bytes)
    ),
    "history": picture.svg(HOUR, 0.0, 3600.0),
}


@pytest.mark.parametrize("drawn", PICTURES.values(), ids=PICTURES)
def test_no_text_of_a_picture_is_cut_off_or_lies_over_another(
    tab: Tab, tmp_path: Path, drawn: str
) -> None:
    (tmp_path / "picture.svg").write_text(drawn)
    tab.renew()
    tab.show(WIDTHS[-1], 900, "light")
    tab.open((tmp_path / "picture.svg").as_uri())
    assert tab.evaluate(CUT_OFF) == []
    assert tab.evaluate(OVERLAPS) == []
