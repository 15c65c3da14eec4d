"""Thousands of small questions to a kernel: which values it takes, refuses and shows.

The same questions go to real kernels (record.py, whose answers are kept here as data) and to the
simulated ones (test_answers.py). They ask for errnos and texts, never for figures of the machine.
No kdamond is left at the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import ENOTDIR, errorcode

from tierd.clock import Clock
from tierd.sysfs import Sysfs, SysfsError

KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
STATE = f"{KDAMONDS}/0/state"
CONTEXT = f"{KDAMONDS}/0/contexts/0"
SCHEME = f"{CONTEXT}/schemes/0"
ATTRS = f"{CONTEXT}/monitoring_attrs"
TARGET = f"{CONTEXT}/targets/0"

Answer = str | bool | Sequence["Answer"] | Mapping[str, "Answer"]
Answers = Iterator[tuple[str, Answer]]

VALUES = (
    *("0", "1", "2", "0x10", "0X1f", "010", "08", "-1", "-2147483648", "2147483647", "2147483648"),
    *("4294967295", "4294967296", "18446744073709551615", "18446744073709551616"),
    *("99999999999999999999x", "+5", "-+5", " 5", "5 ", "5\n", "5\n\n", "0x", "", "5,6"),
    *("Y", "yep", "n", "on", "off", "o", "true", "enable", "disable", "x"),
)
WORDS = (
    *("vaddr", "fvaddr", "paddr", "paddr\n", "paddr ", "migrate_hot", "collapse", "stat"),
    *("anon", "memcg", "addr", "target", "young", "unmapped", "active", "hugepage_size"),
    *("consist", "temporal", "none", "free_mem_rate", "user_input", "some_mem_psi_us"),
    *("node_mem_used_bp", "node_memcg_used_bp", "active_mem_bp", "node_eligible_mem_bp"),
    *("/a/b", "/a\n"),
)
COUNTS = (
    "nr_kdamonds",
    "0/contexts/nr_contexts",
    "0/contexts/0/targets/nr_targets",
    "0/contexts/0/targets/0/regions/nr_regions",
    "0/contexts/0/schemes/nr_schemes",
    "0/contexts/0/schemes/0/filters/nr_filters",
    "0/contexts/0/schemes/0/core_filters/nr_filters",
    "0/contexts/0/schemes/0/ops_filters/nr_filters",
    "0/contexts/0/schemes/0/quotas/goals/nr_goals",
    "0/contexts/0/schemes/0/dests/nr_dests",
    "0/contexts/0/monitoring_attrs/probes/nr_probes",
    "0/contexts/0/monitoring_attrs/probes/0/filters/nr_filters",
)
COUNT_VALUES = ("-1", "0", "1", "2", "3", "4", "5", "x", "", "2147483648", "0x2", "02\n", " 1")
COMMANDS = (
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_bytes",
    "update_schemes_tried_regions",
    "clear_schemes_tried_regions",
    "update_schemes_effective_quotas",
    "update_tuned_intervals",
    "nonsense",
    "on ",
)
# 64 MiB that the two-tier machine has in its second node.
START = 0x4000_0000
LENGTH = 0x0400_0000


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel whose operations return errnos instead of raising them."""

    sysfs: Sysfs
    clock: Clock

    def read(self, path: str) -> str:
        return self._named(lambda: self.sysfs.read(path))

    def write(self, path: str, value: object) -> str:
        def attempt() -> str:
            self.sysfs.write(path, str(value))
            return "ok"

        return self._named(attempt)

    def command(self, word: str) -> str:
        return self.write(STATE, word)

    def state(self) -> list[Answer]:
        """Return the state, and whether there is a pid."""
        return [self.read(STATE), self.read(f"{KDAMONDS}/0/pid") != "-1"]

    def files(self, folder: str) -> Iterator[str]:
        for name in self.sysfs.listdir(folder):
            path = f"{folder}/{name}"
            if self.is_folder(path):
                yield from self.files(path)
            else:
                yield path

    def is_folder(self, path: str) -> bool:
        try:
            self.sysfs.listdir(path)
        except SysfsError as error:
            if error.errno != ENOTDIR:
                raise
            return False
        return True

    @staticmethod
    def _named(attempt: Callable[[], str]) -> str:
        try:
            return attempt()
        except SysfsError as error:
            return errorcode[error.errno]


def stage(asked: Asked, schemes: int = 1) -> None:
    """Stage one kdamond that watches 64 MiB; its schemes take everything and change nothing."""
    asked.write(f"{KDAMONDS}/nr_kdamonds", 1)
    asked.write(f"{KDAMONDS}/0/contexts/nr_contexts", 1)
    asked.write(f"{CONTEXT}/operations", "paddr")
    asked.write(f"{CONTEXT}/targets/nr_targets", 1)
    asked.write(f"{TARGET}/regions/nr_regions", 1)
    asked.write(f"{TARGET}/regions/0/start", START)
    asked.write(f"{TARGET}/regions/0/end", START + LENGTH)
    asked.write(f"{CONTEXT}/schemes/nr_schemes", schemes)
    for index in range(schemes):
        scheme = f"{CONTEXT}/schemes/{index}"
        for name, value in (("sz", 2**64 - 1), ("nr_accesses", 2**32 - 1), ("age", 2**32 - 1)):
            asked.write(f"{scheme}/access_pattern/{name}/max", value)
        asked.write(f"{scheme}/quotas/goals/nr_goals", 1)
        asked.write(f"{scheme}/filters/nr_filters", 1)


def clear(asked: Asked) -> None:
    """Remove all kdamonds and stop all DAMON modules."""
    asked.command("off")
    asked.write(f"{KDAMONDS}/nr_kdamonds", 0)
    for module in modules(asked):
        asked.write(f"sys/module/{module}/parameters/enabled", "N")


def modules(asked: Asked) -> list[str]:
    names = ("damon_stat", "damon_reclaim", "damon_lru_sort")
    return [name for name in names if asked.sysfs.exists(f"sys/module/{name}")]


def values(asked: Asked) -> Answers:
    """Which values each file takes, and what it reads then."""
    for path in COUNTS:
        asked.write(f"{KDAMONDS}/{path}", 1)
    counters = {path.rpartition("/")[2] for path in COUNTS}
    for path in list(asked.files(f"{KDAMONDS}/0")):
        name = path.rpartition("/")[2]
        if name in counters or name in ("state", "pid"):
            continue
        before = asked.read(path)
        seen = {value: [asked.write(path, value), asked.read(path)] for value in (*VALUES, *WORDS)}
        asked.write(path, before)
        yield path.removeprefix(f"{KDAMONDS}/"), {"at first": before, **seen}


def counts(asked: Asked) -> Answers:
    """Which values each nr_* file takes."""
    for path in COUNTS:
        seen = {}
        for value in COUNT_VALUES:
            for parent in COUNTS[: COUNTS.index(path)]:
                asked.write(f"{KDAMONDS}/{parent}", 1)
            file = f"{KDAMONDS}/{path}"
            seen[value] = [asked.write(file, value), asked.read(file)]
        yield path, seen


def access(asked: Asked) -> Answers:
    """Which files cannot be opened, and why."""
    stage(asked)
    for name in ("pid", "nosuch", "contexts", "pid/x", "contexts/0/avail_operations"):
        path = f"{KDAMONDS}/0/{name}"
        yield name, [asked.write(path, "1"), asked.sysfs.exists(path)]
    for name in ("stats/nr_tried", "quotas/effective_bytes", "tried_regions/total_bytes"):
        yield name, asked.write(f"{SCHEME}/{name}", "1")
    for path in ("sys", "proc/sys", "sys/nosuch", f"{KDAMONDS}/1/pid", f"{KDAMONDS}/0/pid/x"):
        yield f"read {path}", asked.read(path)
    for path in ("proc/vmstat", "proc/zoneinfo", "sys/kernel/btf/vmlinux"):
        yield f"write {path}", asked.write(path, "1")


def lifecycle(asked: Asked) -> Answers:
    """Every command before, while and after a kdamond runs."""
    stage(asked)
    for word in (*COMMANDS, "off"):
        yield f"never on: {word}", [asked.command(word), *asked.state()]
    yield "on", [asked.command("on\n"), *asked.state()]
    yield "on twice", [asked.command("on"), *asked.state()]
    yield "nr_kdamonds", [asked.write(f"{KDAMONDS}/nr_kdamonds", nr) for nr in (1, 0)]
    for word in COMMANDS:
        yield f"on: {word}", [asked.command(word), *asked.state()]
    for module in modules(asked):
        path = f"sys/module/{module}/parameters/enabled"
        yield f"on: {module}", [asked.write(path, "Y"), asked.read(path)]
    yield "off", [asked.command("off"), *asked.state()]
    for word in (*COMMANDS, "off"):
        yield f"ended: {word}", [asked.command(word), *asked.state()]
    yield "on again", [asked.command("on"), *asked.state(), asked.command("off\n")]
    asked.write(f"{ATTRS}/nr_regions/min", 2)
    words = ("on", "off", "update_schemes_stats")
    yield "a refused on forgets", [asked.command(word) for word in words]


def missing(asked: Asked) -> Answers:
    """Commands without targets, without schemes, or without a context."""
    words = ("on", *COMMANDS[:5], "off")
    for path in ("schemes/nr_schemes", "targets/nr_targets", "targets/0/regions/nr_regions"):
        stage(asked)
        asked.write(f"{CONTEXT}/{path}", 0)
        yield path, [[word, asked.command(word), *asked.state()] for word in words]
    stage(asked)
    asked.write(f"{KDAMONDS}/0/contexts/nr_contexts", 0)
    for word in ("on", "off", "commit", "update_schemes_stats"):
        yield f"no context: {word}", asked.command(word)


def statistics(asked: Asked) -> Answers:
    """Files show their last update, and stay after the kdamond has ended."""
    stage(asked)
    path = f"{SCHEME}/stats/nr_tried"
    asked.command("on")
    asked.clock.sleep(1)
    seen = [asked.read(path)]
    for word in ("update_schemes_stats", "off", "on", "update_schemes_stats"):
        asked.command(word)
        seen.append(asked.read(path))
    asked.command("off")
    _, first, ended, begun, last = (int(text) for text in seen)
    yield "before an update", seen[0]
    yield "after it", first > 0
    yield "after off and on", [ended == first, begun == first]
    yield "after an update", last < first


def tried(asked: Asked) -> Answers:
    """The directories of tried regions."""
    stage(asked, schemes=2)
    asked.write(f"{ATTRS}/probes/nr_probes", 2)
    asked.command("on")
    yield "update", asked.command("update_schemes_tried_regions")
    numbers = [_numbers(asked, scheme) for scheme in (0, 1)]
    both = sorted(numbers[0] + numbers[1])
    yield "in a row", [known == list(range(known[0], known[0] + len(known))) for known in numbers]
    yield "together in a row", both == list(range(both[0], both[0] + len(both)))
    for scheme, known in enumerate(numbers):
        folder = f"{CONTEXT}/schemes/{scheme}/tried_regions"
        yield (
            f"files {scheme}",
            sorted(
                path.removeprefix(f"{folder}/{known[0]}/")
                for path in asked.files(f"{folder}/{known[0]}")
            ),
        )
        sizes = [
            int(asked.read(f"{folder}/{number}/end")) - int(asked.read(f"{folder}/{number}/start"))
            for number in known
        ]
        yield f"total {scheme}", [sum(sizes) == LENGTH, asked.read(f"{folder}/total_bytes")]
    for word in ("off", "update_schemes_tried_regions", "on", "update_schemes_tried_bytes"):
        answer = asked.command(word)
        shown = asked.read(f"{SCHEME}/tried_regions/total_bytes")
        yield f"then {word}", [answer, bool(_numbers(asked, 0)), shown]
    yield (
        "clear",
        [
            asked.command("clear_schemes_tried_regions"),
            asked.read(f"{SCHEME}/tried_regions/total_bytes"),
        ],
    )


def _numbers(asked: Asked, scheme: int) -> list[int]:
    names = asked.sysfs.listdir(f"{CONTEXT}/schemes/{scheme}/tried_regions")
    return sorted(int(name) for name in names if name.isdigit())
