"""Plant one small fault after the other, and see whether the tests near it notice.

    python -m tools.mutate tierd/policy.py tierd/tuner --count 100 --seed 1

Nothing on disk changes. Tests are collected once. For each fault that process is forked, and in the
fork the code of one function is replaced. Then the tests that run its line are run, the cheapest
first, until one fails. A fault that survives this, or that is not in a function, is tried in a new
process that imports the faulty module. Each result is saved at once, so that a run can be stopped
and continued. After tests have been added, `--again` tries the survivors once more.
"""

import argparse
import gc
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import coverage
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tools.mutants import Mutant, mutants, mutated

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".mutation"

# The tests that are near a folder or file. The longest name that fits counts.
NEAR = {
    "tierd/configuration": ("tests/unit/configuration", "tests/unit/console/test_shipped_files.py"),
    "tierd/feedback.py": ("tests/unit/test_feedback.py", "tests/unit/tuner"),
    "tierd/importing": ("tests/unit/importing",),
    "tierd/kdamonds": ("tests/faults", "tests/sim/test_daemon.py", "tests/sim/test_tuners.py"),
    "tierd/plans": ("tests/unit/plans", "tests/unit/test_policy.py"),
    "tierd/policy.py": (
        "tests/unit/test_policy.py",
        "tests/unit/test_policy_monitoring.py",
        "tests/unit/test_golden_plans.py",
        "tests/unit/tuner/test_measurement.py",
    ),
    "tierd/serving": ("tests/unit/serving",),
    "tierd/serving/api.py": ("tests/unit/serving/test_api.py", "tests/unit/serving/test_inbox.py"),
    "tierd/tuner": (
        "tests/unit/tuner",
        "tests/unit/test_feedback.py",
        "tests/unit/test_policy.py",
        "tests/unit/test_policy_monitoring.py",
    ),
}

# Hypothesis is imported already, so pytest cannot rewrite its asserts. Nobody reads them here.
PYTEST = (
    "-q",
    *("-p", "no:cacheprovider"),
    *("-m", "not (vm or thorough or rare)"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

# A fault gets the cheapest tests that fit into this much processor time.
TESTS_CPU_S_MAX = 15.0
# A fault may make a loop endless. Its process ends at this multiple of the processor time of its
# tests, plus so many seconds.
CPU_TIMES_MAX, CPU_S_MORE = 5, 10
# A fault may also wait for ever. It is killed when this multiple of that bound has passed by the
# clock.
WALL_TIMES_MAX = 4
# A fault that fills the memory is ended too.
MEMORY_BYTES_MAX = 4 << 30

TOOL_FAILED = 99

NO_TEST, SURVIVED, KILLED, ENDLESS = "no test runs it", "survived", "killed", "endless"


@dataclass(frozen=True, slots=True)
class Fault:
    """A mutant of a file."""

    path: str
    mutant: Mutant

    @property
    def key(self) -> str:
        source = (ROOT / self.path).read_bytes()
        which = f"{self.mutant.node} {self.mutant.variant}".encode()
        return f"{self.path}:{hashlib.sha256(source + which).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Result:
    key: str
    path: str
    name: str
    verdict: str
    cpu_s: float


class Results:
    """A file with a line per result. The last result of a fault counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def add(self, fault: Fault, verdict: str, cpu_s: float) -> None:
        result = Result(fault.key, fault.path, fault.mutant.name, verdict, cpu_s)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def read(self) -> dict[str, Result]:
        found = (Result(**json.loads(line)) for line in self.path.read_text().splitlines())
        return {one.key: one for one in found}


@dataclass(frozen=True, slots=True)
class Known:
    """The processor time of each test, and which tests run a line of a file.

    The test "" stands for the collection of the tests, which runs lines too.
    """

    cpu_s: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def tests(self, fault: Fault) -> list[str]:
        """Return the tests that run the fault, the cheapest first.

        If it runs while tests are collected, each near test may depend on the result, so the other
        near tests follow. A fault outside of functions counts as run by all tests that run anything
        of the file.
        """
        of_file = self.lines.get(fault.path, {})
        first, last = fault.mutant.lines
        numbers = range(first, last + 1) if fault.mutant.function else of_file
        found = {test for number in numbers for test in of_file.get(number, ())}
        others = self.cpu_s.keys() - found if "" in found else set()
        return [*self._cheapest(found - {""}), *self._cheapest(others)]

    def _cheapest(self, tests: Iterable[str]) -> list[str]:
        chosen, cpu_s = list[str](), 0.0
        for test in sorted(tests, key=lambda test: (self.cpu_s[test], test)):
            cpu_s += self.cpu_s[test]
            if chosen and cpu_s > TESTS_CPU_S_MAX:
                break
            chosen.append(test)
        return chosen

    def cpu_s_max(self, tests: Sequence[str]) -> int:
        return int(CPU_TIMES_MAX * sum(self.cpu_s[test] for test in tests) + CPU_S_MORE)


def in_fork(work: Callable[[], int], cpu_s_max: int | None = None) -> tuple[int | None, float]:
    """Do the work in a fork. Return its exit code, None if it did not end, and its cost.

    With a bound it is the work of a fault: its output is dropped, its memory and time are bounded.
    """
    child = os.fork()
    if child == 0:
        code = TOOL_FAILED
        try:
            if cpu_s_max is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_s_max, cpu_s_max))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
            code = work()
        except BaseException:  # noqa: BLE001 - said here, because nobody above may go on
            traceback.print_exc()
        finally:
            os._exit(code)
    bound = cpu_s_max is not None
    until_s = time.monotonic() + WALL_TIMES_MAX * (cpu_s_max or 0)
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG if bound else 0)
        if pid:
            break
        if time.monotonic() > until_s:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    if ended == TOOL_FAILED:
        sys.exit("the tool itself failed; see above")
    return ended, usage.ru_utime + usage.ru_stime


def verdict(code: int | None) -> str:
    if code is None:
        return ENDLESS
    return SURVIVED if code == 0 else KILLED


# Which tests run which lines.


class Mapper:
    """A pytest plugin that runs all tests once, and records the lines and the cost of each."""

    def __init__(self, files: list[str], into: Path) -> None:
        self.into, self.cpu_s = into, dict[str, float]()
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(ROOT / file) for file in files]
        )

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self.cpu_s[item.nodeid] = time.process_time() - begun
            self.coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            str(Path(file).relative_to(ROOT)): {
                number: contexts for number, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        self.into.write_text(json.dumps({"cpu_s": self.cpu_s, "lines": lines}))


def learn(files: list[str], near: Sequence[str]) -> Known:
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "map"
        mapper = Mapper(files, into)
        code, _ = in_fork(lambda: pytest.main([*PYTEST, *near], plugins=[mapper]))
        if code != 0:
            sys.exit(f"the tests fail without a fault (exit code {code}): {' '.join(near)}")
        found = json.loads(into.read_text())
    lines = {
        file: {int(number): tests for number, tests in of_file.items()}
        for file, of_file in found["lines"].items()
    }
    return Known(found["cpu_s"], lines)


# One fault, in tests that are collected already.


class Warm:
    """A pytest plugin that forks once per fault, in place of a run, and replaces one function."""

    def __init__(self, faults: list[Fault], known: Known, results: "Results") -> None:
        self.faults, self.known, self.results = faults, known, results

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for fault in self.faults:
            tests = self.known.tests(fault)

            def work(fault: Fault = fault, tests: list[str] = tests) -> int:
                if not plant(fault):
                    return 0  # To be imported anew.
                return failed([items[test] for test in tests])

            code, cpu_s = in_fork(work, self.known.cpu_s_max(tests))
            if verdict(code) != SURVIVED:
                self.results.add(fault, verdict(code), cpu_s)
        return True


def plant(fault: Fault) -> bool:
    """Give the functions of that name the code with the fault. True if there are any."""
    file = str(ROOT / fault.path)
    tree = mutated(Path(file).read_text(), fault.mutant)
    assert fault.mutant.function is not None
    (code,) = codes(compile(tree, file, "exec", dont_inherit=True), fault.mutant.function)
    old = [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType)
        and one.__code__.co_filename == file
        and (one.__code__.co_qualname, one.__code__.co_firstlineno) == fault.mutant.function
    ]
    if any(one.__code__.co_freevars != code.co_freevars for one in old):
        return False
    for one in old:
        one.__code__ = code
    return bool(old)


def codes(code: CodeType, function: tuple[str, int]) -> list[CodeType]:
    """Return the code of that function, in a module or in its classes."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    found = [one for one in inner if (one.co_qualname, one.co_firstlineno) == function]
    return found or [one for other in inner for one in codes(other, function)]


def failed(items: list[pytest.Item]) -> int:
    """Return 1 as soon as a test fails, 0 if none does."""
    for item, after in zip(items, [*items[1:], None], strict=True):
        try:
            reports = runtestprotocol(item, log=False, nextitem=after)
        except BaseException:  # noqa: BLE001 - whatever a fault brings about is seen
            return 1
        if any(report.failed for report in reports):
            return 1
    return 0


# One fault, imported anew.


class Only:
    """A pytest plugin that keeps only the wanted tests, in their order."""

    def __init__(self, tests: list[str]) -> None:
        self.tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self.tests]


class Import(Loader, MetaPathFinder):
    """An importer that finds the one faulty module before all others do."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.name = fault.path.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, ROOT / self.fault.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        file = str(ROOT / self.fault.path)
        tree = mutated(Path(file).read_text(), self.fault.mutant)
        exec(compile(tree, file, "exec", dont_inherit=True), vars(module))


def anew(fault: Fault, known: Known) -> tuple[str, float]:
    tests = known.tests(fault)

    def work() -> int:
        sys.meta_path.insert(0, Import(fault))
        files = sorted({test.split("::")[0] for test in tests})
        arguments = [*PYTEST, "--hypothesis-profile=mutation", "-x", *files]
        try:
            return pytest.main(arguments, plugins=[Only(tests)])
        except BaseException:  # noqa: BLE001 - whatever a fault brings about is seen
            return pytest.ExitCode.TESTS_FAILED

    code, cpu_s = in_fork(work, known.cpu_s_max(tests))
    return verdict(code), cpu_s


# All faults.


def near(path: str) -> tuple[str, ...]:
    return NEAR[max((one for one in NEAR if path.startswith(one)), key=len)]


def chosen(paths: Sequence[str], count: int | None, seed: int) -> list[Fault]:
    """Return `count` random faults of each file, the same ones for the same seed."""
    found = []
    for name in paths:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            faults = [Fault(str(file.relative_to(ROOT)), m) for m in mutants(file.read_text())]
            random.Random(f"{seed} {file.name}").shuffle(faults)
            found += faults[:count]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="files and folders below tierd/")
    parser.add_argument("--count", type=int, help="so many faults of each file, not all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="try what survived once more")
    parser.add_argument("--results", type=Path, default=RESULTS / "results.jsonl")
    asked = parser.parse_args()
    settings.register_profile(
        "mutation", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
    )
    results = Results(asked.results)
    faults = chosen(asked.paths, asked.count, asked.seed)
    done = results.read()
    left = [
        fault
        for fault in faults
        if fault.key not in done or (asked.again and done[fault.key].verdict in (SURVIVED, NO_TEST))
    ]
    for tests in sorted({near(fault.path) for fault in left}):
        try_all([fault for fault in left if near(fault.path) == tests], tests, results)
    return tell([results.read()[fault.key] for fault in faults])


def try_all(faults: list[Fault], near: tuple[str, ...], results: Results) -> None:
    known = learn(sorted({fault.path for fault in faults}), near)
    unknown = [fault for fault in faults if not known.tests(fault)]
    for fault in unknown:
        results.add(fault, NO_TEST, 0.0)
    functions = [fault for fault in faults if fault.mutant.function and fault not in unknown]
    before = {key: one.verdict for key, one in results.read().items()}
    arguments = [*PYTEST, "--hypothesis-profile=mutation", *near]
    plugin = Warm(functions, known, results)
    in_fork(lambda: pytest.main(arguments, plugins=[plugin]))
    now = results.read()
    for fault in faults:
        if fault not in unknown and before.get(fault.key) == _verdict(now, fault):
            results.add(fault, *anew(fault, known))


def _verdict(results: dict[str, Result], fault: Fault) -> str | None:
    return results[fault.key].verdict if fault.key in results else None


def tell(results: list[Result]) -> int:
    """Print the faults that survive, and the number of faults by result."""
    for one in sorted(results, key=lambda one: (one.path, int(one.name.split(":")[0]))):
        if one.verdict in (SURVIVED, NO_TEST):
            sys.stdout.write(f"{one.path}:{one.name}  ({one.verdict})\n")
    for how, many in sorted(Counter(one.verdict for one in results).items()):
        sys.stdout.write(f"{how}: {many}\n")
    cpu_s = sum(one.cpu_s for one in results) / max(1, len(results))
    sys.stdout.write(f"{cpu_s:.2f} s of a processor for each\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
