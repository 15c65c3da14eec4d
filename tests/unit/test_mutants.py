"""The faults that the mutation tool makes: which there are, and that each changes the code."""

import ast
import sys
from pathlib import Path

import pytest

from tests.test_tidy import ROOT
from tierd.tuner import average
from tools import mutate
from tools.mutants import mutants, mutated


def changes(source: str) -> list[str]:
    return [f"{one.old} -> {one.new}" for one in mutants(source)]


@pytest.mark.parametrize(
    ("source", "some"),
    [
        ("a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("a is None", ["a is None -> a is not None"]),
        ("a and b", ["a and b -> a or b"]),
        ("not a", ["not a -> a"]),
        ("a - b", ["a - b -> a + b"]),
        ("x = 30", ["30 -> 31", "30 -> 29", "30 -> 0", "30 -> 300"]),
        ("x = 1", ["1 -> 0", "1 -> 2"]),
        ("x = 0.5", ["0.5 -> 0.0", "0.5 -> 5.0", "0.5 -> 0.05"]),
        ("x = True", ["True -> False"]),
        ("min(a, b)", ["min(a, b) -> max(a, b)", "min(a, b) -> a", "min(a, b) -> b"]),
        ("x = f(a, b=c)", ["f(a, b=c) -> f(a)"]),
        ("[a for a in b if c]", ["for a in b if c ->  for a in b"]),
        ("put(x)", ["put(x) -> pass"]),
        ("x = a if b else c", ["a if b else c -> a if not b else c"]),
        ("def f():\n if a: return b", ["if a: return b -> if a: pass"]),
    ],
)
def test_what_could_be_written_in_its_place(source: str, some: list[str]) -> None:
    found = [change.strip() for change in changes(source)]
    assert set(some) <= set(found)


@pytest.mark.parametrize(
    "source",
    [
        "x: Span(1, 2)",
        "def f(a: int | 1) -> Literal[3]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "assert a < b",
        "raise Broken(a, hint=1 + 2)",
        "f'{a + 1}'",
        "'words'",
    ],
)
def test_words_annotations_and_our_own_checks_are_left_alone(source: str) -> None:
    assert changes(source) == []


def test_each_is_one_fault_where_it_says() -> None:
    source = (ROOT / "tierd/tuner/throttle.py").read_text()
    plain = ast.unparse(ast.parse(source)).splitlines()
    found = mutants(source)
    assert len(found) > 100
    assert found == mutants(source), "the same each time"
    for one in found:
        tree = mutated(source, one)
        compile(tree, "throttle.py", "exec")
        assert ast.unparse(tree).splitlines() != plain
        assert one.lines[0] <= one.line


def test_a_fault_knows_the_function_that_is_to_be_replaced() -> None:
    source = "class A:\n  @property\n  def b(self, c=1):\n    def d(): return 2\n    return d\n"
    found = {one.old: one.function for one in mutants(source)}
    assert found == {"1": None, "2": ("A.b", 2)}


MODULE = "tierd/tuner/average.py"


def fault() -> mutate.Fault:
    source = Path(ROOT / MODULE).read_text()
    return mutate.Fault(MODULE, next(m for m in mutants(source) if m.new.startswith("before - ")))


def test_a_planted_fault_is_in_the_function_and_nowhere_else() -> None:
    def planted() -> int:
        assert mutate.plant(fault())
        return int(average.moving(10.0, 20.0, 1.0, 2.0))

    assert average.moving(10.0, 20.0, 1.0, 2.0) == 15
    assert mutate.in_fork(planted, 60)[0] == 5
    assert average.moving(10.0, 20.0, 1.0, 2.0) == 15


def test_a_module_is_imported_with_its_fault() -> None:
    def imported() -> int:
        sys.meta_path.insert(0, mutate.Import(fault()))
        del sys.modules["tierd.tuner.average"]
        from tierd.tuner.average import moving

        return int(moving(10.0, 20.0, 1.0, 2.0))

    assert mutate.in_fork(imported, 60)[0] == 5


def test_what_runs_without_end_is_ended() -> None:
    def endless() -> int:
        while True:
            pass

    code, _ = mutate.in_fork(endless, 1)
    assert mutate.verdict(code) == mutate.ENDLESS


def test_the_cheapest_tests_that_run_the_line_come_first() -> None:
    lines = {MODULE: {6: ["slow", "quick"], 1: ["other"]}}
    known = mutate.Known({"slow": 3.0, "quick": 0.1, "other": 0.1}, lines)
    assert known.tests(fault()) == ["quick", "slow"]
    lines[MODULE][6].append("for ever")
    known.cpu_s["for ever"] = 2 * mutate.TESTS_CPU_S_MAX
    assert known.tests(fault()) == ["quick", "slow"]
