"""The command `tierd simulate`: what a machine of another size would do with the same programs."""

import argparse
import json
import os
from pathlib import Path

from tierd.configuration import configfile, filetext
from tierd.configuration.config import Config
from tierd.configuration.configfile import ConfigErrors
from tierd.configuration.yamltext import Problem
from tierd.console.directories import run_dir
from tierd.console.events_and_history import write_picture
from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass
from tierd.profile import curve, from_profile, profile
from tierd.profile.curve import Point
from tierd.profile.load import Work
from tierd.profile.profile import Profile
from tierd.record import rundir
from tierd.record.rundir import RunDir
from tierd.sim import forecast, work_file
from tierd.sim.forecast import Trials
from tierd.sim.trial import Size
from tierd.views import forecast as shown
from tierd.views import forecast_picture, terminal
from tierd.views.forecast import Answer, Costs
from tierd.views.visible import Say

# As the name of a file, as with `tar`.
STANDARD_OUTPUT = Path("-")

# The shares of the touches for which an answer says how much memory has them.
SHARES = (0.5, 0.9, 0.99)

# A size that is simulated to answer for a target may turn out too small or too large. Then another
# one is tried. Each try takes as long as one size of a curve.
TRIES = 4
# Sizes that differ by less than this share serve about the same, so one of them is enough to try.
NEAR_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked."""

    fast_bytes: int | None
    slow_bytes: int | None
    target: float | None
    costs: Costs


class BadQuestion(TierdError):
    """The options do not go together."""

    exit_code = ExitCode.usage


def command(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Answer in words, as JSON or as a picture."""
    work = work_of(arguments.file, arguments.builtin, run_dir(arguments))
    # The machine does not exist yet, so the configuration need not fit this one.
    config = configfile.load(
        arguments.config or configfile.CONFIG, None, required=arguments.config is not None
    ).config
    fast_ns, slow_ns = arguments.latency
    fast_price, slow_price = arguments.price or (None, None)
    costs = Costs(int(fast_ns), int(slow_ns), fast_price, slow_price)
    question = Question(arguments.dram, arguments.cxl, arguments.target_hit, costs)
    found = answer(work, question, config)
    if arguments.json:
        say(json.dumps(shown.as_document(found), indent=2))
    elif arguments.svg == STANDARD_OUTPUT:
        say(forecast_picture.svg(found).rstrip())
    elif arguments.svg:
        write_picture(arguments.svg, forecast_picture.svg(found))
        say(f"wrote {arguments.svg}")
    else:
        say(shown.as_text(found, terminal.columns()))
    return ExitCode.ok


def work_of(path: Path | None, builtin: str | None, folder: RunDir) -> Work:
    """Return the work that a command line names, or else that of the profile that tierd keeps."""
    if builtin is not None:
        return work_file.builtin(builtin)
    if path is None:
        kept = kept_profile(folder)
        if kept is None:
            raise BadQuestion(
                "what should be simulated?",
                "name a profile (`tierd record` makes one) or a workload file, or --builtin NAME; "
                f"while tierd runs it keeps a profile too, but {folder.state / rundir.PROFILE} has "
                "no minute yet",
            )
        return from_profile.work(kept, rundir.PROFILE)
    problems: list[Problem] = []
    text = filetext.read(path, True, problems, profile.FILE_BYTES_MAX)
    if text is None:
        raise ConfigErrors(problems, what="the profile")
    name = path.name
    if work_file.schema_of(text) == work_file.SCHEMA:
        return work_file.parse(name, text)
    found = profile.parse(name, text)
    if not found.lines:
        raise profile.NoProfile(f"{name}: there is no minute in it", profile.HINT)
    return from_profile.work(found, name)


def kept_profile(folder: RunDir) -> Profile | None:
    """Return the profile that the daemon keeps, with the older part if both are of one machine."""
    found: list[Profile] = []
    for name in (rundir.PROFILE_BEFORE, rundir.PROFILE):
        path = folder.state / name
        text = rundir.load(path, profile.FILE_BYTES_MAX)
        if text is None:
            continue
        one = profile.parse(str(path), text)
        if found and found[-1].header.tier_bytes != one.header.tier_bytes and one.lines:
            found.clear()
        found += [one] if one.lines else []
    if not found:
        return None
    return Profile(found[-1].header, tuple(line for one in found for line in one.lines))


def answer(work: Work, question: Question, config: Config) -> Answer:
    """Return the answer, after some seconds of simulation."""
    if question.fast_bytes is not None:
        sizes = [question.fast_bytes]
        trials = _tried(work, sizes, question, config)
    else:
        sizes = curve.sizes(work)
        trials = _tried(work, curve.anchors_of(sizes), question, config)
    least = None
    if question.target is not None:
        trials, least = _least(work, question, config, trials, sizes)
        if least is not None:
            sizes = sorted({*sizes, least})
    rows = _rows(work, question, trials, sizes)
    points = [(row.fast_bytes, row.guess.served) for row in rows]
    needs = [max(one.load.needed_bytes(share) for one in work.stretches) for share in SHARES]
    return Answer(
        about=work.about,
        in_use_bytes=round(work.bytes),
        needs_bytes=tuple((share, round(need)) for share, need in zip(SHARES, needs, strict=True)),
        points=rows,
        knee=curve.knee(points) if len(rows) > 2 else None,
        target=question.target,
        least_bytes=least,
        costs=question.costs,
        doubt=work.doubt,
    )


def _size(work: Work, question: Question, fast_bytes: int) -> Size:
    return Size(fast_bytes, forecast.slow_bytes(work, fast_bytes, question.slow_bytes))


def _tried(work: Work, fast: list[int], question: Question, config: Config) -> Trials:
    sizes = [_size(work, question, one) for one in fast]
    fitting = [one for one in sizes if work.bytes <= forecast.FULL * one.bytes]
    if not fitting:
        raise BadQuestion(
            f"the programs use {round(work.bytes / 2**20)} MiB, and this machine has "
            f"{sizes[-1].bytes >> 20} MiB",
            "ask for a machine with more memory, or leave out --cxl",
        )
    return forecast.tried(work, fitting, config, os.cpu_count() or 1)


def _least(
    work: Work, question: Question, config: Config, trials: Trials, sizes: list[int]
) -> tuple[Trials, int | None]:
    """Return the least size that serves the target, after trials near it."""
    assert question.target is not None
    for _ in range(TRIES):
        least = curve.least_size(work, trials.anchors, sizes, question.target)
        if least is None or any(abs(one - least) <= NEAR_SHARE * least for one in trials.seen):
            return trials, least
        more = _tried(work, [least], question, config)
        trials = Trials({**trials.seen, **more.seen})
    return trials, curve.least_size(work, trials.anchors, sizes, question.target)


def _rows(work: Work, question: Question, trials: Trials, sizes: list[int]) -> tuple[Point, ...]:
    listed = sorted({*sizes, *trials.seen})
    return tuple(forecast.point(work, trials, _size(work, question, size)) for size in listed)
