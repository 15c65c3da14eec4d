"""Profiles on real kernels: of a panel, of a running tierd, and of damon_stat."""

import re
from typing import Any

import pytest

from tests.e2e.boots import told
from tests.e2e.records import HOT_BYTES, HOT_HZ
from tierd.profile import from_profile, profile
from tierd.profile.profile import Source
from tierd.profile.rates import TOUCHES_HZ
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.rare]

PAGE = 4096


@pytest.mark.parametrize("series", ["7.2", "6.12"])
def test_a_panel_finds_how_much_is_hot_and_how_hot(series: str) -> None:
    facts = told(series, machine_model.load("two-tier"), "records")
    code, said, complained = facts["record"]
    assert code == 0, complained
    assert re.search(r": 2 minutes of \d+ pages at a time", said), said
    before, after = facts["left"]
    assert before == after
    # Nothing was moved.
    assert facts["where"] == {"1": HOT_BYTES // PAGE}
    found = profile.parse("profile", facts["profile"])
    size = found.header.tier_bytes[1]
    slow = [line.heat[1] for line in found.lines]
    hot = [
        sum(share for share, hz in zip(one, TOUCHES_HZ, strict=True) if hz > 0.5) for one in slow
    ]
    # A quarter of the node, within three standard errors of a panel of this size.
    assert all(abs(share - HOT_BYTES / size) < 0.06 for share in hot), slow
    touched = max(range(1, len(TOUCHES_HZ)), key=lambda kind: slow[-1][kind])
    # Each page was touched about four times a second. The guest is slow, so it may be less.
    assert HOT_HZ / 8 <= TOUCHES_HZ[touched] <= HOT_HZ * 4, slow


@pytest.mark.parametrize("series", ["7.2", "6.12"])
def test_regions_say_how_much_is_hot_less_exactly(series: str) -> None:
    facts = told(series, machine_model.load("two-tier"), "records", "--by-region")
    assert facts["where"] == {"1": HOT_BYTES // PAGE}
    damon_stat(facts["damon_stat"], series)
    code, complained = facts["observe"]
    assert code == 0, complained
    found = profile.parse("profile", facts["profile"])
    assert (found.header.source, found.minutes) == (Source.sensors, 1)
    size, slow = found.header.tier_bytes[1], found.lines[-1].heat[1]
    # A short window sees memory that is touched now and then as less memory that is hotter. So
    # the touches are counted well, and the memory is not: not more than there is, by chance.
    touches_hz = sum(share * hz for share, hz in zip(slow, TOUCHES_HZ, strict=True))
    assert 1 / 4 < touches_hz * size / (HOT_HZ * HOT_BYTES) < 4, slow
    assert sum(slow[1:]) < HOT_BYTES / size + 0.15, slow
    # The truth lies between the two ways to read a count of regions.
    work = from_profile.work(found, "profile")
    (dense,), (level,) = work.dense, work.level
    assert dense.load.needed_bytes(0.9) < HOT_BYTES < level.load.needed_bytes(0.9), slow


def damon_stat(facts: Any, series: str) -> None:
    """It only read: no kdamond of the administrator was there."""
    if facts is None:
        assert series == "6.12"
        return
    code, _, complained = facts["record"]
    assert (code, facts["kdamonds"]) == (0, "0"), complained
    found = profile.parse("damon_stat", facts["profile"])
    assert (found.header.source, found.minutes) == (Source.damon_stat, 1)
    (shares,) = found.lines[-1].heat
    # A sixth of the machine is hot, and regions count whole. All else may count as touched once:
    # in the first minute of damon_stat no memory was idle for a minute yet.
    warm = sum(share for share, hz in zip(shares, TOUCHES_HZ, strict=True) if hz > 0.16)
    assert HOT_BYTES / found.header.tier_bytes[0] / 2 < warm < 0.9, shares
