"""What can be asked on the command line: every verb, its options, and examples."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tierd import __version__, shipped
from tierd.units import parse_duration_ms

EXIT_CODES = """\
exit codes: 0 ok, 1 failed, 2 usage, 3 daemon not running, 4 state unknown, 5 degraded or drift,
69 not supported here, 75 busy: another DAMON user, 77 not permitted, 78 config
"""

ABOUT = "Keeps hot memory on fast nodes and cold memory on slow ones, with DAMON."

EXAMPLES = """\
examples:
  tierd doctor                 is everything as tierd needs it? changes nothing
  tierd tiers                  the nodes, and how each got its tier
  tierd plan                   what would be done here, in words
  tierd observe --for 2m       look, move nothing, say what would move
  tierd run                    the daemon, in the foreground
  tierd status                 what it does now, and why
  tierd why node1              why its pages move, or do not
  tierd history --since 2h     how it went; --svg FILE for a picture
  tierd restore --print        what undoing everything would write
"""


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all verbs, or of one: to make all takes longer than `status` does."""
    top = argparse.ArgumentParser(
        prog="tierd",
        description=f"{ABOUT}\n\n{EXAMPLES}",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"tierd {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    for name, (about, fill) in VERBS.items():
        if only in (None, name):
            fill(_verb(verbs, name, about))
    return top


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What was asked for; wrong words end the program with a usage."""
    first = argv[0] if argv else None
    return parser(first if first in VERBS else None).parse_args(argv)


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str
) -> argparse.ArgumentParser:
    made = verbs.add_parser(name, help=about, description=about, allow_abbrev=False)
    made.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="read sys/ and proc/ below DIR (default: /)",
    )
    made.add_argument("--run-dir", type=Path, metavar="DIR", help="default: /run/tierd")
    made.add_argument("--state-dir", type=Path, metavar="DIR", help="default: /var/lib/tierd")
    return made


def _none(_verb: argparse.ArgumentParser) -> None:
    """No options of its own."""


def _observe(observe: argparse.ArgumentParser) -> None:
    _config_options(observe)
    _simulate(observe)
    _for(observe, "how long to look (default: 2m)", 120_000)


def _plan(plan: argparse.ArgumentParser) -> None:
    _config_options(plan)
    how = plan.add_mutually_exclusive_group()
    how.add_argument("--writes", action="store_true", help="every write, in order")
    _json(how)
    how.add_argument("--diff", action="store_true", help="where the kernel differs; 5 if it does")
    how.add_argument("--format", choices=["damo"], help="as JSON that `damo start` takes")
    plan.add_argument(
        "--observe", action="store_true", help="the plan of `run --observe`: it moves nothing"
    )


def _tiers(tiers: argparse.ArgumentParser) -> None:
    _json(tiers)
    _config_options(tiers)


def _check(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", nargs="?", type=Path, help="default: /etc/tierd/tierd.yaml")


def _doctor(doctor: argparse.ArgumentParser) -> None:
    _json(doctor)
    doctor.add_argument(
        "--bundle", type=Path, metavar="FILE", help="write a report for a bug tracker (.tar.gz)"
    )
    _config_options(doctor)


def _events(events: argparse.ArgumentParser) -> None:
    events.add_argument("--follow", action="store_true", help="go on as more happens")
    _json(events, "one JSON object; a line each to follow")
    _since(events, "all of the last 10min, 2h, ... (default: the last 10)", None)


def _history(history: argparse.ArgumentParser) -> None:
    how = history.add_mutually_exclusive_group()
    _json(how, "one JSON object with every reading")
    how.add_argument("--svg", type=Path, metavar="FILE", help="as a picture, to paste")
    _since(history, "how far back; a day is kept (default: 1h)", 3_600_000)


def _why(why: argparse.ArgumentParser) -> None:
    why.add_argument("node", metavar="NODE", help="0, or node0")


def _restore(restore: argparse.ArgumentParser) -> None:
    restore.add_argument("--print", action="store_true", help="show the writes, make none")
    restore.add_argument(
        "--after-service",
        action="store_true",
        help="for the unit: only after an end that systemd does not mend by a restart",
    )


def _print(printed: argparse.ArgumentParser) -> None:
    printed.add_argument(
        "what", choices=sorted(shipped.FILES), metavar="WHAT", help=", ".join(sorted(shipped.FILES))
    )


def _json(verb: "argparse._ActionsContainer", about: str = "one JSON object") -> None:
    verb.add_argument("--json", action="store_true", help=about)


def _run(run: argparse.ArgumentParser) -> None:
    _config_options(run)
    where = run.add_mutually_exclusive_group()
    _simulate(where)
    where.add_argument(
        "--demo", action="store_true", help="on this machine if it can be, else simulated"
    )
    run.add_argument("--observe", action="store_true", help="move nothing, only look")
    _for(run, "stop after so long (30s, 2m)", None)


def _simulate(verb: "argparse._ActionsContainer") -> None:
    verb.add_argument(
        "--simulate",
        nargs="?",
        const="two-tier",
        metavar="MACHINE",
        help="on a simulated machine (default: two-tier); nothing real is touched",
    )


def _for(verb: argparse.ArgumentParser, about: str, default: int | None) -> None:
    verb.add_argument(
        "--for",
        dest="for_ms",
        type=_duration_ms,
        metavar="DURATION",
        default=default,
        help=about,
    )


def _config_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--config", type=Path, metavar="FILE", help="default: /etc/tierd/tierd.yaml and tierd.d"
    )


def _since(verb: argparse.ArgumentParser, about: str, default: int | None) -> None:
    verb.add_argument(
        "--since",
        dest="since_ms",
        type=_duration_ms,
        metavar="DURATION",
        default=default,
        help=about,
    )


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("the daemon, in the foreground", _run),
    "observe": ("look for a while, move nothing, say what would move", _observe),
    "plan": ("what would be done, in words; changes nothing", _plan),
    "tiers": ("the topology, and how each node got its tier", _tiers),
    "check": ("validate a configuration: file:line:col for every error", _check),
    "doctor": ("is everything as tierd needs it? with evidence and fix", _doctor),
    "status": ("what the daemon does now, and why", _json),
    "events": ("what happened, and why; the daemon need not run", _events),
    "history": ("how it went: rates, room, hot and cold, as charts", _history),
    "top": ("a live view of `status`; q ends it", _none),
    "why": ("why a node's pages move, or do not: from reading to decision", _why),
    "reload": ("have the daemon read its configuration again", _none),
    "pause": ("have the daemon stop all movement", _none),
    "resume": ("have the daemon move again", _none),
    "restore": ("undo everything, with or without the daemon", _restore),
    "print": ("a file that comes with tierd", _print),
}
"""Each verb: what it is for, and what adds its options."""
