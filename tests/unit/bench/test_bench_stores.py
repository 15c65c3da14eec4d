"""The matrix of stores: what a line says of the runs of a store."""

import pytest

from bench import stores
from bench.stores import Kind, Seen
from tests.sim.loop import MIB

SEEN = Seen(0.5, 1.0, tuple(0.4 if 20 <= at < 25 else 0.75 for at in range(100)), 30 * MIB)


def test_the_lowest_is_an_average_of_ten_seconds() -> None:
    assert SEEN.lowest == pytest.approx((5 * 0.4 + 5 * 0.75) / 10 - 0.5)
    assert SEEN.gain(30) == pytest.approx(0.5)
    assert SEEN.gain(21) == pytest.approx(-0.2)


def test_a_line_has_the_worst_of_all_runs_and_the_means_of_the_rest() -> None:
    other = Seen(0.5, 1.0, (1.0,) * 100, 10 * MIB)
    assert stores.line("a store", (SEEN, other)) == "+7.5 points; 75% 75% 75%; 20 MiB; a store"


def test_idle_memory_takes_the_fast_node_first() -> None:
    alone, beside = (stores.run(Kind(53, 0.99, 1.0, idle), "7.2", 1, 12) for idle in (0, 440))
    assert alone.begins > 0.9
    assert beside.begins < 0.1
    assert beside.shares[-1] > beside.begins


def test_an_unknown_kernel_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        stores.main(["--series", "7.2,7.9"])
    assert "'7.9' is none of 6.12, 6.16" in capsys.readouterr().err
