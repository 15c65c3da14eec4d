"""Numbers mean what they mean to damo."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tierd.importing import amounts
from tierd.importing.foreign import MAX, Amount, Unit

GIB = 1 << 30

SIZES = {
    "0": 0,
    "4096": 4096,
    "4.000 KiB": 4096,
    "4K": 4096,
    "200MB": 200 << 20,
    "200 MiB": 200 << 20,
    "50.000 GiB": 50 * GIB,
    "50G": 50 * GIB,
    "1.5GiB": 3 * GIB // 2,
    "4,294,967,296": 4 * GIB,
    "2T": 2048 * GIB,
    "1 EiB": 1 << 60,
    "64 EiB": MAX,
    "min": 0,
    "max": MAX,
    "1 B": 1,
}
# In microseconds, with a plain number as microseconds and as milliseconds.
TIMES = {
    "5ms": (5_000, 5_000),
    "100 ms": (100_000, 100_000),
    "0 ns": (0, 0),
    "1500 ns": (1, 1),
    "20 s": (20_000_000, 20_000_000),
    "2.500 s": (2_500_000, 2_500_000),
    "1 m": (60_000_000, 60_000_000),
    "1 m 30 s": (90_000_000, 90_000_000),
    "2 h 5 m 3 s 200 ms": (7_503_200_000, 7_503_200_000),
    "1d": (86_400_000_000, 86_400_000_000),
    "5000": (5_000, 5_000_000),
    "5,000": (5_000, 5_000_000),
    "min": (0, 0),
    "max": (MAX, MAX),
}
# In basis points.
SHARES = {"4%": 400, "4 %": 400, "0.5%": 50, "99.7 %": 9970, "50": 50, "9,970": 9970, "0 %": 0}


@pytest.mark.parametrize("text", SIZES)
def test_sizes(text: str) -> None:
    assert amounts.size_bytes(text) == SIZES[text]


@pytest.mark.parametrize("text", TIMES)
def test_times(text: str) -> None:
    assert (amounts.duration_us(text), amounts.duration_of_ms_us(text)) == TIMES[text]


@pytest.mark.parametrize("text", SHARES)
def test_shares(text: str) -> None:
    assert amounts.share_bp(text) == SHARES[text]


def test_a_plain_number_has_the_unit_of_its_key() -> None:
    assert amounts.share("10", amounts.PERMIL) == Fraction(1, 100)
    assert amounts.share("10", amounts.PERCENT) == Fraction(1, 10)
    assert amounts.share("10 %", amounts.PERMIL) == Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("5 %", Amount(Fraction(1, 20), Unit.share)),
        ("5", Amount(Fraction(1, 20), Unit.share)),
        ("max", Amount(Fraction(1), Unit.share)),
        ("18,446,744,073,709,551,615 %", Amount(Fraction(1), Unit.share)),
        ("3 samples", Amount(Fraction(3), Unit.samples)),
    ],
)
def test_accesses(text: str, amount: Amount) -> None:
    assert amounts.accesses(text) == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("30 s", Amount(Fraction(30_000_000), Unit.us)),
        ("max", Amount(Fraction(MAX), Unit.us)),
        ("10 aggr_intervals", Amount(Fraction(10), Unit.aggregations)),
    ],
)
def test_ages(text: str, amount: Amount) -> None:
    assert amounts.age(text) == amount


@pytest.mark.parametrize("text", ["y", "Yes", "true", "True"])
def test_switched_on(text: str) -> None:
    assert amounts.switch(text)


@pytest.mark.parametrize("text", ["n", "NO", "false"])
def test_switched_off(text: str) -> None:
    assert not amounts.switch(text)


WRONG = [
    "",
    " ",
    "-1",
    "five",
    "5 apples",
    "1 2",
    "0x10",
    "1e3",
    "5..5",
    "5 s 3",
    "9" * 100,
    "max s",
]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize(
    "parse",
    [
        amounts.size_bytes,
        amounts.duration_us,
        amounts.share_bp,
        amounts.count,
        amounts.node_id,
        amounts.accesses,
        amounts.age,
        amounts.switch,
    ],
)
def test_a_wrong_text_says_what_was_expected(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=r"^expected "):
        parse(text)


@pytest.mark.parametrize("text", ["1.5", "5 %", "3 KiB"])
def test_a_count_is_a_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number such as"):
        amounts.count(text)


@pytest.mark.parametrize("text", ["65536", "max", "-1", "node0"])
def test_a_node_has_a_small_number(text: str) -> None:
    with pytest.raises(ValueError, match="expected the id of a node, from 0 to 65535"):
        amounts.node_id(text)


ASK = """
import json, sys
import _damo_fmt_str as damo
sizes, times, shares = json.load(sys.stdin)
print(json.dumps([
    [damo.text_to_bytes(one) for one in sizes],
    [[damo.text_to_us(one), damo.text_to_ms(one)] for one in times],
    [damo.text_to_bp(one) for one in shares],
]))
"""


def test_damo_reads_the_same() -> None:
    found = pytest.importorskip("damo")
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([list(SIZES), list(TIMES), list(SHARES)]),
        env={**os.environ, "PYTHONPATH": str(Path(found.__path__[0]))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    sizes, times, shares = json.loads(done.stdout)
    assert dict(zip(SIZES, sizes, strict=True)) == SIZES
    # damo keeps fractions, and does not cap a number of milliseconds at the largest number of
    # microseconds.
    for text, (us, ms) in zip(TIMES, times, strict=True):
        assert (int(us), min(MAX, int(ms * 1000))) == TIMES[text], text
    assert dict(zip(SHARES, map(round, shares), strict=True)) == SHARES
