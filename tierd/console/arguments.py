"""What can be asked on the command line: every verb, its options, and examples."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tierd import __version__
from tierd.console import shipped
from tierd.units import parse_duration_ms
from tierd.views import terminal

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


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes one of these for every argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal.columns() - 2)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all verbs, or of one: to make all takes longer than `status` does."""
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
    """What was asked for; wrong words end the program with a usage."""
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
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="read sys/ and proc/ below DIR (default: /)",
    )
    made.add_argument("--run-dir", type=Path, metavar="DIR", help="default: /run/tierd")
    made.add_argument("--state-dir", type=Path, metavar="DIR", help="default: /var/lib/tierd")
    made.add_argument(
        "--no-color", action="store_true", help="as in a pipe, or where NO_COLOR is set"
    )
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
        help="for the unit: nothing after a proper end; after a kill only let quotas rest",
    )


def _print(printed: argparse.ArgumentParser) -> None:
    printed.add_argument(
        "what", choices=sorted(shipped.FILES), metavar="WHAT", help=", ".join(sorted(shipped.FILES))
    )


def _status(status: argparse.ArgumentParser) -> None:
    _json(status)


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


class Verb(NamedTuple):
    """A verb: what it is for, what adds its options, and how it is used."""

    about: str
    fill: Callable[[argparse.ArgumentParser], None]
    examples: tuple[tuple[str, str], ...]


VERBS = {
    "run": Verb(
        "the daemon, in the foreground",
        _run,
        (
            ("sudo tierd run", "until Ctrl-C, which puts everything back"),
            ("tierd run --simulate", "on a simulated machine: nothing real is touched"),
        ),
    ),
    "observe": Verb(
        "look for a while, move nothing, say what would move",
        _observe,
        (
            ("sudo tierd observe --for 2m", "while your programs work"),
            ("tierd observe --simulate", "on a simulated machine"),
        ),
    ),
    "plan": Verb(
        "what would be done, in words; changes nothing",
        _plan,
        (
            ("tierd plan", "in words, with the reasons"),
            ("tierd plan --writes", "every write to the kernel, in order"),
            ("tierd plan --diff", "does the kernel still have it? silent, or 5"),
        ),
    ),
    "tiers": Verb(
        "the topology, and how each node got its tier",
        _tiers,
        (("tierd tiers", "nodes by speed, and where pages go"),),
    ),
    "check": Verb(
        "validate a configuration: file:line:col for every error",
        _check,
        (
            ("tierd check", "what the daemon would read"),
            ("tierd check new.yaml", "before it is copied there"),
        ),
    ),
    "doctor": Verb(
        "is everything as tierd needs it? with evidence and fix",
        _doctor,
        (
            ("sudo tierd doctor", "works without root too, and sees less"),
            ("sudo tierd doctor --bundle report.tar.gz", "for a bug tracker"),
        ),
    ),
    "status": Verb(
        "what the daemon does now, and why",
        _status,
        (
            ("tierd status", "the verdict first"),
            ("tierd status --json | jq -r .state", "for programs"),
        ),
    ),
    "events": Verb(
        "what happened, and why; the daemon need not run",
        _events,
        (
            ("tierd events", "the last ten"),
            ("tierd events --since 2h", "all of the last two hours"),
            ("tierd events --follow --json", "as they come, a line each"),
        ),
    ),
    "history": Verb(
        "how it went: rates, room, hot and cold, as charts",
        _history,
        (
            ("tierd history --since 24h", "in the terminal"),
            ("tierd history --svg tierd.svg", "the last hour, to paste"),
        ),
    ),
    "top": Verb(
        "a live view of `status`; q ends it",
        _none,
        (("tierd top", "the keys are on the screen"),),
    ),
    "why": Verb(
        "why a node's pages move, or do not: from reading to decision",
        _why,
        (("tierd why node1", "or `tierd why 1`"),),
    ),
    "reload": Verb(
        "have the daemon read its configuration again",
        _none,
        (("sudo tierd reload", "says what changed; a bad file changes nothing"),),
    ),
    "pause": Verb(
        "have the daemon stop all movement",
        _none,
        (("sudo tierd pause", "until `tierd resume`"),),
    ),
    "resume": Verb("have the daemon move again", _none, (("sudo tierd resume", "after a pause"),)),
    "restore": Verb(
        "undo everything, with or without the daemon",
        _restore,
        (
            ("tierd restore --print", "the writes, as commands; makes none"),
            ("sudo tierd restore", "after a crash"),
        ),
    ),
    "print": Verb(
        "a file that comes with tierd",
        _print,
        (
            ("tierd print config", "every key, with what it does"),
            ("tierd print unit | sudo tee /etc/systemd/system/tierd.service", "for pip users"),
        ),
    ),
}
