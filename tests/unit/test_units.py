import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd import units


@pytest.mark.parametrize(
    ("size", "bytes_per_s"),
    [
        ("200MB", 200_000_000),
        ("4KiB", 4096),
        ("4kB", 4000),
        ("1GiB", 1 << 30),
        ("1.5GiB", 3 << 29),
        ("200 mb", 200_000_000),
        (" 7B ", 7),
        ("0", 0),
        ("0.001kB", 1),
        ("2TiB", 2 << 40),
    ],
)
def test_rates_are_exact(size: str, bytes_per_s: int) -> None:
    assert units.parse_rate(f"{size}/s") == bytes_per_s


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ("200", "expected a rate such as 200MB/s or 64MiB/s, found '200', which has no unit"),
        ("200M", "write MB (1000) or MiB (1024)"),
        ("5ms", "whose unit 'ms' is none of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"),
        ("-1MB", "expected a rate"),
        ("1e3MB", "expected a rate"),
        ("1_000MB", "expected a rate"),
        ("", "expected a rate"),
        ("0.5B", "whole bytes"),
        ("20000000TiB", "less than 2^64 bytes"),
        ("٣MB", "expected a rate"),
    ],
)
def test_wrong_sizes_get_a_sentence(size: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        units.parse_rate(f"{size}/s")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("5ms", 5000),
        ("10s", 10_000_000),
        ("1h", 3_600_000_000),
        ("2min", 120_000_000),
        ("2m", 120_000_000),
        ("1.5s", 1_500_000),
        ("100us", 100),
        ("0", 0),
        ("1d", 86400 * 10**6),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert units.parse_duration_us(text) == us


def test_milliseconds_are_whole() -> None:
    assert units.parse_duration_ms("1.5s") == 1500
    with pytest.raises(ValueError, match="whole milliseconds"):
        units.parse_duration_ms("1500us")


def test_a_duration_needs_a_unit() -> None:
    with pytest.raises(ValueError, match="which has no unit"):
        units.parse_duration_us("5")


@pytest.mark.parametrize(
    ("text", "bp"), [("0.5%", 50), ("99.7%", 9970), ("100%", 10000), ("0.01 %", 1), ("0%", 0)]
)
def test_percents(text: str, bp: int) -> None:
    assert units.parse_percent(text) == bp


@pytest.mark.parametrize("text", ["0.005%", "100.01%", "5", "0.5", "five%"])
def test_wrong_percents(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a percentage"):
        units.parse_percent(text)


def test_rates() -> None:
    assert units.parse_rate("200MB/s") == 200_000_000
    assert units.parse_rate("64 MiB / s") == 64 << 20


@pytest.mark.parametrize("text", ["200MB", "200MB/h", "/s", "200MB/s/s"])
def test_wrong_rates(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a rate"):
        units.parse_rate(text)


@pytest.mark.parametrize(
    ("text", "ids"), [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("0", (0,)), ("8, 0-1\n", (0, 1, 8))]
)
def test_ids(text: str, ids: tuple[int, ...]) -> None:
    assert units.parse_ids(text) == ids


@pytest.mark.parametrize("text", ["3-1", "0,0", "0-2,1", "a", "1-", "0,,1", "0-70000", "-1"])
def test_wrong_ids(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected .*0-3,8"):
        units.parse_ids(text)


@given(st.sets(st.integers(0, 200)))
def test_ids_round_trip(ids: set[int]) -> None:
    assert units.parse_ids(units.format_ids(ids)) == tuple(sorted(ids))


@given(st.integers(0, 2**53), st.sampled_from(sorted(units.BYTES_PER_UNIT)))
def test_a_rate_is_its_number_times_its_unit(number: int, unit: str) -> None:
    value = number * units.BYTES_PER_UNIT[unit]
    if value <= units.VALUE_MAX:
        assert units.parse_rate(f"{number}{unit}/s") == value
    else:
        with pytest.raises(ValueError, match="less than 2"):
            units.parse_rate(f"{number}{unit}/s")


@given(st.integers(0, 10000))
def test_percents_round_trip(bp: int) -> None:
    assert units.parse_percent(units.format_percent(bp)) == bp


@given(st.text())
def test_any_text_is_a_value_or_a_sentence(text: str) -> None:
    for parse in (
        units.parse_rate,
        units.parse_duration_us,
        units.parse_percent,
        units.parse_ids,
    ):
        assert outcome(parse, text) == "" or outcome(parse, text).startswith("expected ")


def outcome(parse: Callable[[str], object], text: str) -> str:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536 << 20, "1.5 GiB"),
        ((1 << 20) - 1, "1 MiB"),
        (123 << 20, "123 MiB"),
        (5000 << 40, "5000 TiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_sizes_for_people(size_bytes: int, text: str) -> None:
    assert units.format_size(size_bytes) == text


@given(st.integers(1, 2**60))
def test_a_shown_size_is_within_half_a_percent(size_bytes: int) -> None:
    shown = float(units.format_size(size_bytes).split()[0])
    unit = units.BYTES_PER_UNIT[units.format_size(size_bytes).split()[1].lower()]
    assert abs(shown * unit - size_bytes) <= size_bytes * 0.005


def test_rates_for_people() -> None:
    assert units.format_rate(200e6) == "200 MB/s"
    assert units.format_rate(0) == "0 B/s"
    assert units.format_rate(1234567.8) == "1.23 MB/s"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 us"),
        (999, "999 us"),
        (5000, "5 ms"),
        (1_500_000, "1.5 s"),
        (60_000_000, "1 min"),
        (90_000_000, "1 min 30 s"),
        (11_100_000_000, "3 h 5 min"),
        (7_200_000_000, "2 h"),
        (2 * 86400 * 10**6 + 3 * 3600 * 10**6 + 59, "2 d 3 h"),
    ],
)
def test_durations_for_people(us: int, text: str) -> None:
    assert units.format_duration_us(us) == text


def test_a_list_of_long_spans_is_refused_before_it_is_written_out() -> None:
    tracemalloc.start()
    with pytest.raises(ValueError, match="each id once"):
        units.parse_ids(",".join(["0-65535"] * 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Two spans have 130,000 ids of 8 bytes. A thousand would be half a gigabyte.
    assert peak < 32 << 20
