"""House rules that no linter checks: who may do IO, and how long things may be."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Modules that decide. They may import only modules without IO: the first set from the standard
# library, the second from tierd. Topology and config are there for their frozen types.
PURE = {
    "doctor/doctor.py",
    "doctor/findings.py",
    "doctor/machine_checks.py",
    "doctor/memory_checks.py",
    "doctor/neighbour_checks.py",
    "doctor/processor_checks.py",
    "doctor/speeds.py",
    "errors.py",
    "figures.py",
    "frozen.py",
    "feedback.py",
    "importing/amounts.py",
    "importing/damo_command.py",
    "importing/damo_options.py",
    "importing/foreign.py",
    "importing/policy_file.py",
    "importing/remarks.py",
    "importing/sampling_settings.py",
    "importing/scheme_settings.py",
    "importing/scope_settings.py",
    "importing/shell_text.py",
    "importing/tier_order.py",
    "importing/translation.py",
    "importing/values.py",
    "kdamonds/saved.py",
    "loop/supervise.py",
    "machine/override.py",
    "machine/sample.py",
    "machine/unsuited.py",
    "machine/zoneinfo.py",
    "plans/aims.py",
    "plans/damo_format.py",
    "plans/eviction.py",
    "plans/groups.py",
    "plans/reasons.py",
    "plans/damon.py",
    "plans/knobs.py",
    "plans/plan.py",
    "plans/promoters.py",
    "plans/rates.py",
    "plans/sampling.py",
    "plans/safety.py",
    "plans/scope.py",
    "plans/sensing.py",
    "plans/visits.py",
    "plans/ways.py",
    "policy.py",
    "profile/from_profile.py",
    "profile/gather.py",
    "profile/load.py",
    "profile/minute.py",
    "profile/panel_plan.py",
    "profile/profile.py",
    "profile/rates.py",
    "profile/seldom.py",
    "profile/sensors.py",
    "profile/stat.py",
    "ranges.py",
    "report/compare.py",
    "record/scheme_totals.py",
    "record/fields.py",
    "record/outlook.py",
    "record/sensed.py",
    "record/snapshot.py",
    "record/daemon_counts.py",
    "serving/metrics.py",
    "sim/kernel_math.py",
    "sim/context_spec.py",
    "topology.py",
    "tuner/average.py",
    "tuner/benefit.py",
    "tuner/chance.py",
    "tuner/shown.py",
    "tuner/budget.py",
    "tuner/climb.py",
    "tuner/climb_heat.py",
    "tuner/climb_words.py",
    "tuner/climbing.py",
    "tuner/distance.py",
    "tuner/touches.py",
    "tuner/trade.py",
    "tuner/descent.py",
    "tuner/evictions.py",
    "tuner/fallbacks.py",
    "tuner/gain.py",
    "tuner/gate.py",
    "tuner/pages.py",
    "tuner/habit.py",
    "tuner/heat.py",
    "tuner/hint_faults.py",
    "tuner/lag.py",
    "tuner/latencies.py",
    "tuner/demand.py",
    "tuner/demotion.py",
    "tuner/measurement.py",
    "tuner/node_state.py",
    "tuner/promotion.py",
    "tuner/push.py",
    "tuner/relief.py",
    "tuner/round.py",
    "tuner/shares.py",
    "tuner/sensor_patterns.py",
    "tuner/series.py",
    "tuner/throttle.py",
    "tuner/tuners.py",
    "units.py",
    "views/forecast.py",
    "views/forecast_picture.py",
    "views/report.py",
    "views/plots.py",
    "views/scene.py",
    "views/screen.py",
    "views/bars_view.py",
    "views/whyview.py",
    "views/window.py",
    "views/visible.py",
}
PURE_IMPORTS = {
    "bisect",
    "collections",
    "dataclasses",
    "difflib",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "hashlib",
    "itertools",
    "html",
    "json",
    "math",
    "operator",
    "re",
    "textwrap",
    "typing",
}
PURE_LOCAL = {
    "tierd.configuration.config",
    "tierd.configuration.settings",
    "tierd.configuration.class_values",
    "tierd.configuration.valuetypes",
    "tierd.configuration.yamltext",
    "tierd.digest",
    "tierd.doctor.facts",
    "tierd.doctor.findings",
    "tierd.doctor.machine_checks",
    "tierd.doctor.memory_checks",
    "tierd.doctor.neighbour_checks",
    "tierd.doctor.processor_checks",
    "tierd.doctor.speeds",
    "tierd.errors",
    "tierd.figures",
    "tierd.frozen",
    "tierd.importing.amounts",
    "tierd.importing.damo_options",
    "tierd.importing.foreign",
    "tierd.importing.remarks",
    "tierd.importing.sampling_settings",
    "tierd.importing.scheme_settings",
    "tierd.importing.scope_settings",
    "tierd.importing.shell_text",
    "tierd.importing.tier_order",
    "tierd.importing.values",
    "tierd.kdamonds.niceness",
    "tierd.kdamonds.ownership",
    "tierd.machine.cgroups",
    "tierd.machine.cputime",
    "tierd.machine",
    "tierd.machine.hotplug",
    "tierd.machine.interleave",
    "tierd.machine.neighbours",
    "tierd.machine.numa_balancing",
    "tierd.machine.features",
    "tierd.machine.override",
    "tierd.machine.processes",
    "tierd.machine.sample",
    "tierd.machine.sysctls",
    "tierd.machine.swap",
    "tierd.plans.aims",
    "tierd.plans.damon",
    "tierd.plans.eviction",
    "tierd.plans.groups",
    "tierd.plans.reasons",
    "tierd.plans.knobs",
    "tierd.plans",
    "tierd.plans.rates",
    "tierd.plans.sampling",
    "tierd.plans.plan",
    "tierd.plans.promoters",
    "tierd.plans.safety",
    "tierd.plans.scope",
    "tierd.plans.sensing",
    "tierd.plans.visits",
    "tierd.plans.ways",
    "tierd.policy",
    "tierd.profile.cached",
    "tierd.profile.curve",
    "tierd.report.compare",
    "tierd.profile.load",
    "tierd.profile.minute",
    "tierd.profile.panel",
    "tierd.profile.profile",
    "tierd.profile.rates",
    "tierd.profile.seldom",
    "tierd.profile.sensors",
    "tierd.profile.stat",
    "tierd.ranges",
    "tierd.record",
    "tierd.record.fields",
    "tierd.record.outlook",
    "tierd.record.sensed",
    "tierd.record.snapshot",
    "tierd.record.daemon_counts",
    "tierd.sim.kernel_math",
    "tierd.sim.context_spec",
    "tierd.topology",
    "tierd.tuner.average",
    "tierd.tuner.benefit",
    "tierd.tuner.chance",
    "tierd.tuner.shown",
    "tierd.tuner.habit",
    "tierd.tuner.lag",
    "tierd.tuner.latencies",
    "tierd.tuner.heat",
    "tierd.tuner.hint_faults",
    "tierd.tuner.demand",
    "tierd.tuner.demotion",
    "tierd.tuner.measurement",
    "tierd.tuner.node_state",
    "tierd.tuner.promotion",
    "tierd.tuner.budget",
    "tierd.tuner.climb",
    "tierd.tuner.climb_heat",
    "tierd.tuner.climb_words",
    "tierd.tuner.climbing",
    "tierd.tuner.distance",
    "tierd.tuner.touches",
    "tierd.tuner.trade",
    "tierd.tuner.descent",
    "tierd.tuner.evictions",
    "tierd.tuner.fallbacks",
    "tierd.tuner.gain",
    "tierd.tuner.gate",
    "tierd.tuner.pages",
    "tierd.tuner.push",
    "tierd.tuner.relief",
    "tierd.tuner.shares",
    "tierd.tuner.round",
    "tierd.tuner.sensor_patterns",
    "tierd.tuner.series",
    "tierd.tuner.throttle",
    "tierd.tuner.tuners",
    "tierd.units",
    "tierd.views.forecast",
    "tierd.views.plots",
    "tierd.views.processview",
    "tierd.views",
    "tierd.views.render",
    "tierd.views.scene",
    "tierd.views.screen",
    "tierd.views.statusview",
    "tierd.views.visible",
    "tierd.views.bars_view",
    "tierd.views.whoview",
    "tierd.views.whyview",
}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

# The storeys from the ground up. A package, or a module beside the packages, may import from itself
# and from lower storeys. The ground has what knows nothing of memory, and the version.
STOREYS = (
    {"__version__", "frozen"},
    {"clock", "digest", "errors", "ranges", "units"},
    {"figures", "sysfs", "topology"},
    {"machine"},
    {"configuration"},
    {"importing", "plans"},
    {"tuner"},
    {"feedback", "policy"},
    {"planning"},
    {"record"},
    {"profile", "report"},
    {"kdamonds", "serving", "views"},
    {"loop"},
    {"doctor"},
    {"sim"},
    {"console"},
    {"cli"},
    {"__main__"},
)

# The programs that ship beside the library may know the simulated kernel; the library may not.
MAY_IMPORT_SIM = {"console/commands.py", "console/foreground.py", "console/simulate.py"}


# Only commands may have the kernel walk the page tables of processes; views know the values.
MAY_READ_PROCESSES = {
    "console/who.py",
    "views/processview.py",
}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "tierd").as_posix()


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # `from tierd.loop import daemon` imports the module tierd.loop.daemon.
            if (ROOT / module.replace(".", "/") / "__init__.py").exists():
                yield from (f"{module}.{alias.name}" for alias in node.names)
            else:
                yield module


def storey(module: str) -> int:
    """Return the number of a module's storey."""
    part = module.split(".")[1] if "." in module else ""
    return next(number for number, parts in enumerate(STOREYS) if part in parts)


def too_long(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name}: {lines} lines"


PURE_MODULES = [path for path in modules("tierd") if name_of(path) in PURE]


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_imports_point_downwards(path: Path) -> None:
    here = name_of(path).removesuffix(".py").removesuffix("/__init__").split("/")[0]
    found = {name for name in imports(ast.parse(path.read_text())) if name.startswith("tierd.")}
    if here == "__init__":
        assert not found, "the package itself knows nobody"
        return
    bad = {
        name
        for name in found
        if storey(name) >= storey(f"tierd.{here}") and name.split(".")[1] != here
    }
    assert not bad, f"{name_of(path)} imports {sorted(bad)}"


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_frozen_dataclasses_are_those_that_cost_little(path: Path) -> None:
    text = path.read_text()
    frozen = re.search(r"^@(dataclasses\.)?dataclass\(frozen=True", text, re.MULTILINE)
    if frozen and path.name != "frozen.py":
        assert re.search(r"^from tierd\.frozen import .*\bdataclass\b", text, re.MULTILINE)
    assert "dataclasses.replace(" not in text or path.name == "frozen.py"


def test_there_are_pure_modules() -> None:
    assert PURE_MODULES, "the list of pure modules matches no file"


@pytest.mark.parametrize("path", PURE_MODULES, ids=name_of)
def test_pure_modules_import_nothing_that_does_io(path: Path) -> None:
    found = set(imports(ast.parse(path.read_text())))
    bad = {n for n in found if n.split(".")[0] not in PURE_IMPORTS and n not in PURE_LOCAL}
    assert not bad, f"{path.name} is pure but imports {sorted(bad)}"


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_the_daemon_does_not_know_the_simulation(path: Path) -> None:
    if name_of(path).startswith("sim/") or name_of(path) in MAY_IMPORT_SIM:
        return
    bad = [n for n in imports(ast.parse(path.read_text())) if n.startswith("tierd.sim")]
    assert not bad, f"{name_of(path)} imports {bad}"


def test_the_daemon_does_not_read_the_memory_of_processes() -> None:
    readers = {
        name_of(path)
        for path in modules("tierd")
        if "tierd.machine.process_memory" in imports(ast.parse(path.read_text()))
    }
    assert readers == MAY_READ_PROCESSES


@pytest.mark.parametrize(
    "path", modules("tierd", "tests"), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_functions_and_files_fit_in_a_head(path: Path) -> None:
    text = path.read_text()
    assert not list(too_long(ast.parse(text)))
    assert text.count("\n") <= FILE_LINES_MAX, "split it by noun"


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name_of(path)} has no docstring"


def test_unit_tests_lie_in_folders_of_what_they_test() -> None:
    """Folders are those of tierd's packages and the benchmark. `shipped` tests other files."""
    folders = {path.parent.name for path in (ROOT / "tests/unit").glob("*/test_*.py")}
    packages = {path.parent.name for path in (ROOT / "tierd").glob("*/__init__.py")}
    assert folders - packages == {"bench", "shipped"}


def parts_of_the_map() -> dict[str, str]:
    """Return the tables of the map in architecture.md by package, "" for modules beside them."""
    text = (ROOT / "docs/architecture.md").read_text()
    text = text.partition("\n## The map\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (?:`(\w+)/`|Beside the packages)", text, flags=re.MULTILINE)
    return {name or "": part for name, part in zip(parts[1::2], parts[2::2], strict=True)}


# The simulation has its own page.
TABLED = [
    path
    for path in modules("tierd")
    if not name_of(path).startswith("sim/") and path.stem.strip("_") == path.stem
]


@pytest.mark.parametrize("path", TABLED, ids=name_of)
def test_a_newcomer_finds_every_module_in_a_minute(path: Path) -> None:
    package, _, name = name_of(path).rpartition("/")
    assert f"`{name}`" in parts_of_the_map()[package]


def test_the_map_names_no_module_that_does_not_exist() -> None:
    named = {
        f"{package}/{name}".lstrip("/")
        for package, part in parts_of_the_map().items()
        for cell in re.findall(r"^\| (`.*?) \|", part, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+\.py)`", cell)
    }
    assert named == {name_of(path) for path in TABLED}
