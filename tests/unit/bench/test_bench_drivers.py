"""The drivers of programs: their seconds, the keys they draw, and what they read of pgbench."""

from collections import Counter

import pytest

from bench import ask_postgres, driven, zipf
from bench.ask_postgres import Transaction
from bench.errors import BenchError
from bench.seconds import NS_PER_S, Seconds, quantile


def test_a_second_is_told_when_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    marks: list[int] = []
    told = Seconds(marks.append, began_ns=5 * NS_PER_S)
    for number in range(1, 201):
        told.add(took_ns=number * 1000, now_ns=5 * NS_PER_S + number * NS_PER_S // 100)
    assert marks == [1, 2]
    said = driven.parse(f"filled 0 1\n{capsys.readouterr().out}")["served"]
    assert (said["at_s"], said["seconds"], said["operations"]) == (
        [6.0, 7.0],
        [1.0, 1.0],
        [100] * 2,
    )
    assert (said["p50_us"], said["p99_us"]) == ([51.0, 151.0], [100.0, 200.0])


def test_a_quantile_of_one_is_that_one() -> None:
    assert quantile([7], 0.5) == quantile([7], 0.99) == 7


def test_a_few_numbers_are_drawn_often_and_lie_anywhere() -> None:
    draw = zipf.drawer(1000, seed=1)
    drawn = Counter(draw() for _ in range(20_000))
    # The first rank has 1 of the sum of 1 / r^0.99 up to 1000, which is 7.8.
    often = drawn.most_common(20)
    assert often[0][1] / 20_000 == pytest.approx(1 / 7.8, rel=0.15)
    assert max(number for number, _ in often) > 500
    assert min(number for number, _ in often) < 500
    assert set(drawn) <= set(range(1000))


def test_the_log_of_pgbench_is_read_in_whole_lines() -> None:
    text = "0 199 2241 0 1175850568 995598\n1 7 30 0 1175850569 1\n0 200 24"
    found, rest = ask_postgres.parse(text)
    assert found == [
        Transaction(2_241_000, 1_175_850_568_995_598_000),
        Transaction(30_000, 1_175_850_569_000_001_000),
    ]
    assert rest == "0 200 24"
    assert ask_postgres.parse("") == ([], "")


def test_what_is_no_line_of_pgbench_is_an_error() -> None:
    with pytest.raises(BenchError, match=r"not a line of pgbench's log: '0 199 skipped"):
        ask_postgres.parse("0 199 skipped 0 1175850568 995598\n")
