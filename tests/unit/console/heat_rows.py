"""The rows of the table of the command line that are about a machine's heat."""

from tests.unit.console.promises import Row

# Virtual minutes of a trial: a real one takes as long as all other rows together.
BRIEF = (0.2, 0.2)

WRONG = "--dram 64G --cxl 1TiB --target-hit 99% --price 12,5 --latency 80,200 --svg -"

HEAT_ROWS = (
    Row(
        "two-tier-7.2",
        "record {tmp}/p.jsonl --simulate --for 2m --run-dir {tmp}",
        0,
        ("on the SIMULATED machine two-tier", "2 minutes of 10", "Next: `tierd simulate "),
    ),
    Row("two-tier-7.2", "record {tmp}/p.jsonl --root {root} --run-dir {tmp}", 69, (), ("boot_id",)),
    Row(
        "two-tier-7.2",
        "record {run}/good.yaml --simulate --for 2m --run-dir {tmp}",
        1,
        ("SIMULATED",),
        ("exists, and a recording is not written over", "name another file"),
    ),
    Row(
        "two-tier-7.2",
        "report --root {root} --for 100ms --run-dir {tmp} --save {tmp}/b.json --html {tmp}/r.html "
        "--better lower --turns 2",
        0,
        ("wrote ", "major faults, /s", "nothing to compare it with"),
    ),
    Row(
        "two-tier-7.2",
        "report --root {root} --for 100ms --run-dir {tmp} --command echo",
        1,
        (),
        ("echo gave no number", "must be a number"),
    ),
    Row(
        "two-tier-7.2",
        "report --root {root} --for 100ms --run-dir {tmp} --json --html {tmp}/r.html",
        0,
        ('"tierd.report/1"', '"method": "one"'),
    ),
    Row("two-tier-7.2", "report --root {root} --ab 10min --run-dir {tmp}", 3, (), ("not running",)),
    Row(
        "two-tier-7.2",
        "report --root {root} --ab 10min --run-dir {run}",
        1,
        (),
        ("the daemon is degraded, so there is nothing to switch off",),
        "degraded",
    ),
    Row(
        "two-tier-7.2",
        "report --root {root} --for 100ms --before {run}/good.yaml --run-dir {tmp}",
        1,
        (),
        ("good.yaml: not a report", "`tierd report --save FILE"),
    ),
    Row(
        "two-tier-7.2",
        "report --root {root} --for 100ms --prometheus http://127.0.0.1:9 --query up",
        1,
        (),
        ("http://127.0.0.1:9/api/v1/query?query=up gave no number",),
    ),
    Row(
        "two-tier-7.2",
        "record {tmp}/p.jsonl --damon-stat --root {root} --run-dir {tmp}",
        69,
        (),
        ("boot_id",),
    ),
    Row(
        "two-tier-7.2",
        "simulate --run-dir {tmp}",
        2,
        (),
        ("what should be simulated?", "`tierd record`", "profile.jsonl has no minute yet"),
    ),
    Row("two-tier-7.2", f"simulate --builtin none {WRONG}", 2, (), ("no workload 'none'", "zipf")),
    Row("two-tier-7.2", "simulate {run}/none.jsonl", 78, (), ("does not exist",)),
    Row("two-tier-7.2", "simulate {run}/good.yaml", 1, (), ("good.yaml:1: not the header",)),
    Row(
        "two-tier-7.2",
        "simulate --builtin idle --dram 1G --cxl 2G",
        2,
        (),
        ("65536 MiB", "ask for a machine with more memory"),
    ),
    Row(
        "two-tier-7.2",
        "simulate --builtin hot-set --dram 16G --cxl 64G --json --config {run}/quiet.yaml",
        0,
        ('"tierd.simulate/1"', '"simulated": true'),
    ),
)
