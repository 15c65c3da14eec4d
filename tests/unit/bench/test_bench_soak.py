"""The report of the soak test."""

from bench.soak import GROWTH_BYTES_MAX, P99_S_MAX, Scrape, summary

MIB = 1 << 20


def test_the_figures_and_that_the_promises_were_kept() -> None:
    seen = [
        Scrape(0.001 * (number % 10 + 1), 30 * MIB + number * 100, 0.0) for number in range(200)
    ]
    text, kept = summary(seen)
    assert kept
    assert "scrapes                 200" in text
    assert "6.0, 10.0, 10.0 ms" in text
    assert "30.00 30.01 30.01 30.02 30.02" in text
    assert "growth                  19 KiB" in text


def test_one_in_a_hundred_may_be_slow_and_two_may_not() -> None:
    quick, slow = Scrape(0.001, MIB, 0.0), Scrape(P99_S_MAX * 2, MIB, 0.0)
    assert summary([quick] * 199 + [slow])[1]
    assert not summary([quick] * 98 + [slow] * 2)[1]


def test_growth_is_noticed() -> None:
    first, last = Scrape(0.001, MIB, 0.0), Scrape(0.001, MIB + GROWTH_BYTES_MAX + 1, 0.0)
    assert not summary([first, last])[1]
