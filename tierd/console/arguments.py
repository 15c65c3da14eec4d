"""The command line: every command with its options, its help and its examples."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tierd import __version__
from tierd.console import heat_options, shipped
from tierd.console.options import (
    config_option,
    duration_ms,
    for_option,
    json_option,
    path_value,
    root_value,
    simulate_option,
)
from tierd.views import terminal

# The root directory of this machine, unless --root names another.
ROOT = Path("/")

EXIT_CODES = """\
exit codes: 0 ok, 1 failed, 2 usage, 3 daemon not running, 4 state unknown, 5 degraded or drift,
69 not supported here, 75 busy: another DAMON user, 77 not permitted, 78 config
"""

ABOUT = "Keep hot memory on fast nodes and cold memory on slow nodes, with DAMON."

EXAMPLES = """\
examples:
  tierd doctor                 check this machine; changes nothing
  tierd tiers                  show the nodes and their tiers
  tierd plan                   show what tierd would do here, in words
  tierd observe --for 2m       watch, move nothing, say what would move
  tierd run                    run the daemon in the foreground
  tierd status                 show what the daemon does now, and why
  tierd why node1              say why pages of node1 move or do not move
  tierd history --since 2h     show charts; --svg FILE makes a picture
  tierd restore --print        show how to undo everything
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal.columns() - 2)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or only of one, which is much faster to make."""
    top = argparse.ArgumentParser(
        prog="tierd",
        description=f"{ABOUT}\n\n{EXAMPLES}",
        epilog=EXIT_CODES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"tierd {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND", prog=top.prog)
    for name, verb in VERBS.items():
        if only in (None, name):
            verb.fill(_added(verbs, name, verb))
    return top


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments. If they are wrong, print the usage and exit."""
    first = argv[0] if argv else None
    return parser(first if first in VERBS else None).parse_args(argv)


def _added(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, verb: "Verb"
) -> argparse.ArgumentParser:
    width = max(len(words) for words, _ in verb.examples)
    examples = "\n".join(f"  {words.ljust(width)}  {about}" for words, about in verb.examples)
    made = verbs.add_parser(
        name,
        help=verb.about,
        description=f"{verb.about}\n\nexamples:\n{examples}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    made.add_argument(
        "--root",
        type=root_value,
        default=ROOT,
        metavar="DIR",
        help="read sys/ and proc/ below DIR (default: /)",
    )
    made.add_argument(
        "--run-dir",
        type=path_value,
        metavar="DIR",
        help="the daemon's socket and state (default: $TIERD_RUN_DIR, or /run/tierd)",
    )
    made.add_argument(
        "--state-dir",
        type=path_value,
        metavar="DIR",
        help="totals, events, history, profile (default: $TIERD_STATE_DIR, or the run directory if "
        "it is named, or /var/lib/tierd)",
    )
    made.add_argument(
        "--no-color", action="store_true", help="no colour, as in a pipe or with NO_COLOR set"
    )
    return made


def _none(_verb: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no options of its own."""


def _observe(observe: argparse.ArgumentParser) -> None:
    config_option(observe)
    simulate_option(observe)
    for_option(observe, "how long to watch (default: 2m)", 120_000)


def _plan(plan: argparse.ArgumentParser) -> None:
    config_option(plan)
    simulate_option(plan)
    how = plan.add_mutually_exclusive_group()
    how.add_argument(
        "--writes", action="store_true", help="print every write to the kernel, in order"
    )
    json_option(how)
    how.add_argument(
        "--diff",
        action="store_true",
        help="print where the kernel differs from the plan; exit 5 if it does",
    )
    how.add_argument("--format", choices=["damo"], help="print JSON for `damo start`")
    plan.add_argument(
        "--observe", action="store_true", help="the plan of `run --observe`, which moves nothing"
    )


def _tiers(tiers: argparse.ArgumentParser) -> None:
    json_option(tiers)
    config_option(tiers)
    simulate_option(tiers)


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "file", nargs="?", type=path_value, help="default: /etc/tierd/tierd.yaml and tierd.d"
    )
    check.add_argument(
        "--machine",
        type=path_value,
        metavar="FILE",
        help="check for another machine: FILE is its report (`doctor --bundle`), or its "
        "`tiers --json`",
    )


def _import(imported: argparse.ArgumentParser) -> None:
    imported.add_argument(
        "file",
        type=path_value,
        metavar="FILE",
        help="a file of damo or HMSDK (JSON or YAML), or a text with a `damo start` command",
    )
    json_option(imported, "one JSON object: the configuration, and what became of each part")


def _doctor(doctor: argparse.ArgumentParser) -> None:
    json_option(doctor)
    doctor.add_argument(
        "--bundle",
        type=path_value,
        metavar="FILE",
        help="write a report for a bug tracker (.tar.gz)",
    )
    doctor.add_argument(
        "--measure",
        action="store_true",
        help="measure latency and bandwidth of each node too; takes some seconds, and some memory",
    )
    config_option(doctor)
    simulate_option(doctor)


def _events(events: argparse.ArgumentParser) -> None:
    events.add_argument(
        "--follow", action="store_true", help="go on, and print new events as they happen"
    )
    json_option(events, "one JSON object; with --follow, one per line")
    _since(events, "all events of the last 10min, 2h, ... (default: the last 10 events)", None)


def _history(history: argparse.ArgumentParser) -> None:
    how = history.add_mutually_exclusive_group()
    json_option(how, "one JSON object with every reading")
    how.add_argument(
        "--svg",
        type=path_value,
        metavar="FILE",
        help="write an SVG picture to FILE; - is standard output",
    )
    _since(history, "how far back, at most a day (default: 1h)", 3_600_000)


def _why(why: argparse.ArgumentParser) -> None:
    why.add_argument("node", metavar="NODE", help="for example 0 or node0; or the path of a cgroup")
    config_option(why)


def _top(top: argparse.ArgumentParser) -> None:
    top.add_argument(
        "--processes", action="store_true", help="show the largest processes in place of cgroups"
    )
    json_option(top, "one JSON object, once")
    config_option(top)


def _restore(restore: argparse.ArgumentParser) -> None:
    restore.add_argument("--print", action="store_true", help="print the writes, and make none")
    restore.add_argument(
        "--after-service",
        action="store_true",
        help="for the systemd unit: do nothing after a clean exit; after a kill, park the quotas",
    )


def _print(printed: argparse.ArgumentParser) -> None:
    kinds = [f"{kind} NAME" for kind in shipped.KINDS]
    single = [name for name in shipped.FILES if name.partition("-")[0] not in shipped.KINDS]
    printed.add_argument(
        "what",
        choices=sorted({*shipped.FILES, *shipped.KINDS}),
        metavar="WHAT",
        help=", ".join(sorted([*single, *kinds])),
    )
    names = "; ".join(f"{kind}: {', '.join(of)}" for kind, of in shipped.KINDS.items())
    printed.add_argument(
        "name",
        nargs="?",
        action=_Named,
        choices=sorted({name for names in shipped.KINDS.values() for name in names}),
        metavar="NAME",
        help=f"which one. {names}",
    )


class _Named(argparse.Action):
    """Joins the second word to the first: `completion zsh` is stored as `completion-zsh`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        if values is None:
            return
        kind = namespace.what
        if values not in shipped.KINDS.get(kind, ()):
            there = ", ".join(shipped.KINDS.get(kind, ())) or "none"
            parser.error(f"there is no {kind} {values}; there are: {there}")
        namespace.what = f"{kind}-{values}"


def _run(run: argparse.ArgumentParser) -> None:
    config_option(run)
    where = run.add_mutually_exclusive_group()
    simulate_option(where)
    where.add_argument(
        "--demo", action="store_true", help="on this machine if tierd can run here, else simulated"
    )
    run.add_argument("--observe", action="store_true", help="watch, and move nothing")
    for_option(run, "stop after this time (30s, 2m)", None)


def _since(verb: argparse.ArgumentParser, about: str, default: int | None) -> None:
    verb.add_argument(
        "--since",
        dest="since_ms",
        type=duration_ms,
        metavar="DURATION",
        default=default,
        help=about,
    )


class Verb(NamedTuple):
    """A command: what it does, the function that adds its options, and examples."""

    about: str
    fill: Callable[[argparse.ArgumentParser], None]
    examples: tuple[tuple[str, str], ...]


VERBS = {
    "run": Verb(
        "run the daemon in the foreground",
        _run,
        (
            ("sudo tierd run", "until Ctrl-C, which restores everything"),
            ("tierd run --simulate", "on a simulated machine; this one is not touched"),
        ),
    ),
    "observe": Verb(
        "watch for a while, move nothing, and say what would move",
        _observe,
        (
            ("sudo tierd observe --for 2m", "while your programs run"),
            ("tierd observe --simulate", "on a simulated machine"),
        ),
    ),
    "record": Verb(
        "record how hot memory is, for `tierd simulate`; moves nothing, one tier is enough",
        heat_options.record,
        (
            ("sudo tierd record --for 24h", "a day is best; ten minutes are the least"),
            ("tierd record day.jsonl --simulate --for 20m", "on a simulated machine, at once"),
        ),
    ),
    "simulate": Verb(
        "say what a machine of another size would do with the same programs",
        heat_options.simulate,
        (
            ("tierd simulate day.jsonl --dram 64G --cxl 192G", "one machine"),
            ("tierd simulate day.jsonl --target-hit 99%", "the least fast memory that is enough"),
            ("tierd simulate --builtin zipf --svg curve.svg", "the curve over all sizes"),
        ),
    ),
    "report": Verb(
        "say if it helped: before against after, or on against off in turns",
        heat_options.report,
        (
            ("sudo tierd report --ab 10min --html report.html", "two hours, and a page to send"),
            ("tierd report --for 10min --save before.json", "before tierd is enabled"),
            ("tierd report --for 10min --before before.json", "after it is"),
        ),
    ),
    "plan": Verb(
        "show what tierd would do, in words; changes nothing",
        _plan,
        (
            ("tierd plan", "in words, with the reasons"),
            ("tierd plan --writes", "every write to the kernel, in order"),
            ("tierd plan --diff", "where the kernel differs; exits with 5 if it does"),
        ),
    ),
    "tiers": Verb(
        "show the memory nodes, and how each got its tier",
        _tiers,
        (("tierd tiers", "nodes by speed, and where their pages can move"),),
    ),
    "check": Verb(
        "check a configuration: file:line:col for every error",
        _check,
        (
            ("tierd check", "the files that the daemon would read"),
            ("tierd check new.yaml", "a file before it is installed"),
            (
                "tierd check --machine node7.json new.yaml",
                "for another machine, by its `tierd tiers --json`",
            ),
        ),
    ),
    "import": Verb(
        "turn a policy of damo or HMSDK into a configuration of tierd",
        _import,
        (
            ("tierd import hmsdk.yaml", "what HMSDK's generator wrote, or `damo args damon`"),
            ("tierd import start.sh > tierd.yaml", "a script with a `damo start` command"),
        ),
    ),
    "doctor": Verb(
        "check if this machine is as tierd needs it; says how to fix it",
        _doctor,
        (
            ("sudo tierd doctor", "works without root too, but then sees less"),
            ("sudo tierd doctor --bundle report.tar.gz", "write a report for a bug tracker"),
            ("sudo tierd doctor --measure", "and how fast the memory of each node is"),
        ),
    ),
    "status": Verb(
        "show what the daemon does now, and why",
        json_option,
        (
            ("tierd status", "the first line says how it goes"),
            ("tierd status --json | jq -r .state", "for programs"),
        ),
    ),
    "events": Verb(
        "show what happened, and why; works without the daemon",
        _events,
        (
            ("tierd events", "the last ten"),
            ("tierd events --since 2h", "those of the last two hours"),
            ("tierd events --follow --json", "as they happen, one per line"),
        ),
    ),
    "history": Verb(
        "show charts: rates, free memory, hot and cold memory",
        _history,
        (
            ("tierd history --since 24h", "in the terminal"),
            ("tierd history --svg tierd.svg", "the last hour, as a picture"),
        ),
    ),
    "top": Verb(
        "show the status live, and which cgroups or processes have memory on slow nodes; q quits",
        _top,
        (
            ("tierd top", "the last line shows the keys"),
            ("tierd top | cat", "once, as text; works without the daemon too"),
            ("tierd top --json", "once, with all cgroups"),
            ("sudo tierd top --processes", "the largest processes, as key p in the live screen"),
        ),
    ),
    "why": Verb(
        "say why the pages of a node move or do not move, or where a cgroup has its memory",
        _why,
        (
            ("tierd why node1", "or `tierd why 1`"),
            ("tierd why /system.slice/redis.service", "with its largest processes"),
        ),
    ),
    "reload": Verb(
        "let the daemon read its configuration again",
        _none,
        (("sudo tierd reload", "says what changed; a file with errors changes nothing"),),
    ),
    "pause": Verb(
        "let the daemon stop all movement of pages",
        _none,
        (("sudo tierd pause", "until `tierd resume`"),),
    ),
    "resume": Verb(
        "let the daemon move pages again", _none, (("sudo tierd resume", "after a pause"),)
    ),
    "restore": Verb(
        "undo everything that a daemon has left in the kernel",
        _restore,
        (
            ("tierd restore --print", "print the writes as shell commands; changes nothing"),
            ("sudo tierd restore", "after a crash"),
        ),
    ),
    "print": Verb(
        "print a file that comes with tierd",
        _print,
        (
            ("tierd print config", "a configuration with every key explained"),
            ("tierd print preset", "the list of presets; `print preset gentle` prints one"),
            ("tierd print completion zsh", "or bash, or fish"),
            (
                "tierd print unit | sudo tee /etc/systemd/system/tierd.service",
                "if installed with pip",
            ),
        ),
    ),
}
