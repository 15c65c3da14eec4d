"""The command `tierd report`: did it help?"""

import argparse
import json
import math
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from tierd.clock import SystemClock
from tierd.console.directories import run_dir
from tierd.console.events_and_history import write_picture
from tierd.errors import ExitCode, NotRunning, TierdError
from tierd.frozen import dataclass
from tierd.record import rundir
from tierd.record.rundir import SOCKET, RunDir
from tierd.report import compare
from tierd.report.compare import Arm, Better, Difference, Measure, Slice
from tierd.report.turns import Meter, Turns, slices
from tierd.serving import client
from tierd.sysfs import Sysfs
from tierd.views import report as shown
from tierd.views import terminal
from tierd.views.visible import Say

# A time without turns is cut into so many slices, whose means are compared.
SLICES = 10

# An application's own figure must come within this time, and be this short.
FIGURE_S_MAX = 10.0
FIGURE_BYTES_MAX = 1 << 16

# A server that does not answer, or is none for HTTP; and an answer that is not Prometheus'.
NO_ANSWER = (OSError, HTTPException)
NO_VALUE = (ValueError, LookupError, TypeError, RecursionError)

MEASURES = (compare.SERVED, compare.PRESSURE, compare.FAULTS, compare.KDAMONDS)


class BadReport(TierdError):
    """A file, a figure or the daemon is not as a report needs it."""


class WrongOptions(TierdError):
    """The options do not go together."""

    exit_code = ExitCode.usage


@dataclass(frozen=True, slots=True)
class DaemonSwitch:
    """Pauses and resumes the daemon, as `tierd pause` and `tierd resume` do."""

    socket: Path

    def pause(self) -> None:
        self._ask("pause")

    def resume(self) -> None:
        self._ask("resume")

    def _ask(self, verb: str) -> None:
        answer = client.post(self.socket, f"/v1/{verb}")
        if answer["exit_code"]:
            raise BadReport(f"the daemon did not {verb}: {answer['text']}", "see `tierd status`")


def command(arguments: argparse.Namespace, sysfs: Sysfs, machine: str, say: Say) -> ExitCode:
    """Measure, compare, and print or write a report."""
    folder = run_dir(arguments)
    meter = Meter(sysfs, SystemClock(), lambda: _status(folder), _application(arguments))
    if arguments.ab_ms is not None:
        found, method = _in_turns(arguments, folder, meter, say), "turns"
        differences = tuple(compare.paired(one, found) for one in _measures(arguments))
    else:
        # A file that is no report is told now, and not after the time has been measured.
        before = () if arguments.before is None else _before(arguments.before)
        found = (*before, *slices(meter, Arm.on, arguments.for_ms / 1000, SLICES))
        method = "before-after" if before else "one"
        differences = tuple(compare.apart(one, found) for one in _measures(arguments))
    report = shown.Report(shown.about(found, machine, method), method, found, _known(differences))
    if arguments.save is not None:
        write_picture(arguments.save, json.dumps(shown.as_document(report), indent=2) + "\n")
    if arguments.html is not None:
        write_picture(arguments.html, shown.as_page(report))
    if arguments.json:
        say(json.dumps(shown.as_document(report), indent=2))
    else:
        say(shown.as_text(report, terminal.columns()))
        if arguments.html is not None:
            say(f"\nwrote {arguments.html}")
    return ExitCode.ok


def _measures(arguments: argparse.Namespace) -> tuple[Measure, ...]:
    if arguments.command is None and arguments.prometheus is None:
        return MEASURES
    own = Measure("application", "the application's own figure", "", Better(arguments.better))
    return (own, *MEASURES)


def _known(differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Return the differences of what was measured at all."""
    return tuple(one for one in differences if one.off is not None or one.on is not None)


def _status(folder: RunDir) -> dict[str, Any] | None:
    with suppress(NotRunning):
        return client.get(folder.run / SOCKET, "/v1/status")
    return None


def _in_turns(
    arguments: argparse.Namespace, folder: RunDir, meter: Meter, say: Say
) -> tuple[Slice, ...]:
    status = client.get(folder.run / SOCKET, "/v1/status")
    if status["state"] != "active":
        raise BadReport(
            f"the daemon is {status['state']}, so there is nothing to switch off",
            "start it with `mode: manage`, or `tierd resume` it; see `tierd status`",
        )
    turns = Turns(meter, DaemonSwitch(folder.run / SOCKET), arguments.ab_ms / 1000)
    # However the command ends, the turns are over and tierd is resumed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    return turns.run(arguments.turns, (lambda _text: None) if arguments.json else say)


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _before(path: Path) -> tuple[Slice, ...]:
    """Return the time that an earlier report measured, as the time before."""
    hint = "`tierd report --save FILE` writes one"
    text = rundir.load(path)
    if text is None:
        raise BadReport(f"{path} does not exist", hint)
    try:
        raw = json.loads(text)
        if raw["schema"] != shown.SCHEMA:
            raise ValueError(f"its schema is {raw['schema']!r}, expected {shown.SCHEMA!r}")
        if raw["method"] == "turns":
            raise ValueError("it has turns with and without tierd, which are not one time")
        # Where it compares two times, its own time is the later one.
        found = tuple(
            Slice(
                Arm.off,
                _finite(one["seconds"]),
                {str(key): _finite(value) for key, value in one["values"].items()},
            )
            for one in raw["slices"]
            if one["arm"] == Arm.on
        )
        if not found:
            raise ValueError("it has no slice")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadReport(f"{path}: not a report: {error!r}", hint) from error


def _application(arguments: argparse.Namespace) -> Callable[[], float] | None:
    if (arguments.prometheus is None) is not (arguments.query is None):
        raise WrongOptions(
            "--prometheus and --query go together",
            "for example --prometheus http://localhost:9090 --query 'rate(requests_total[1m])'",
        )
    if arguments.command is not None:
        try:
            words = shlex.split(arguments.command)
        except ValueError as error:
            raise WrongOptions(f"--command {arguments.command!r}: {error}") from error
        return lambda: _figure_of(words)
    if arguments.prometheus is not None:
        url, query = arguments.prometheus.rstrip("/"), quote(arguments.query, safe="")
        return lambda: _asked(f"{url}/api/v1/query?query={query}")
    return None


def _figure_of(words: list[str]) -> float:
    """Return the number that a command prints. It runs as whoever runs the report."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=FIGURE_S_MAX, check=True
        )
        return _finite(done.stdout.split()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise BadReport(
            f"{words[0] if words else 'the command'} gave no number: {error}",
            "the last word that it prints must be a number, within 10 s",
        ) from error


def _asked(url: str) -> float:
    """Return the value of an instant query of Prometheus."""
    try:
        with urlopen(url, timeout=FIGURE_S_MAX) as answer:
            document = json.loads(answer.read(FIGURE_BYTES_MAX))
        return _value(document["data"])
    except (*NO_ANSWER, *NO_VALUE) as error:
        raise BadReport(
            f"{url} gave no number: {error!r}", "the query must give one value: try it in a browser"
        ) from error


def _value(answered: Any) -> float:
    """Return the one value of an answer. Which of several series was meant nobody can know."""
    found = answered["result"]
    if answered["resultType"] != "scalar":
        if len(found) != 1:
            raise ValueError(f"{len(found)} series, expected one")
        found = found[0]["value"]
    return _finite(found[1])


def _finite(value: object) -> float:
    number = float(str(value))
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number
