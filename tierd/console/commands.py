"""What each verb does: arguments in, the one module that knows called, words out.

Modules that only some verbs need are imported by these: `status` should not load YAML, nor a
daemon.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierd.errors import Conflict, ExitCode, TierdError
from tierd.record.rundir import SOCKET, STATE, RunDir
from tierd.serving import client
from tierd.views import terminal

if TYPE_CHECKING:
    from tierd.configuration.config import Config
    from tierd.loop.service import Stage
    from tierd.sysfs import PatientSysfs

Say = Callable[[str], None]


def run(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """The daemon, in the foreground."""
    from tierd.configuration import configfile
    from tierd.loop import service

    lack = service.can_run_here(arguments.root) if arguments.demo else None
    simulated = arguments.simulate or ("two-tier" if lack else None)
    folder = run_dir(arguments, simulated=simulated is not None, starts=True)
    options = service.Options(
        root=arguments.root,
        folder=folder,
        config=arguments.config or configfile.CONFIG,
        config_required=arguments.config is not None,
        drop_ins=configfile.DROP_INS if arguments.config is None else None,
        observe=arguments.observe,
        for_s=None if arguments.for_ms is None else arguments.for_ms / 1000,
        live=simulated is not None or sys.stdout.isatty(),
    )
    if simulated is None:
        stage = service.real_stage(arguments.root)
        if options.live:
            does = "It moves nothing" if options.observe else "It moves pages"
            say(f"tierd on this machine. {does}. Ctrl-C stops it and puts everything back.")
    else:
        stage = _simulated_stage(simulated)
        if lack:
            say(f"Not on this machine: {lack}.")
        say(f"tierd on the SIMULATED machine {stage.name}: nothing real is touched.")
    if options.live:
        name = _name()
        say(
            "Look further in a second terminal: "
            f"{name} status --run-dir {folder.run}; {name} history --state-dir {folder.state}"
        )
    return service.run(options, stage, say)


def _name() -> str:
    """How to call tierd from another terminal in the same folder: it may be in no PATH."""
    import shutil

    if shutil.which("tierd"):
        return "tierd"
    if Path(sys.argv[0]).name == "tierd":
        return sys.argv[0]
    return f"{sys.executable} -m tierd"


def plan(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """What would be done here, or where the kernel differs from it."""
    from tierd.planning import plan_here
    from tierd.views import planned

    sysfs = _machine(arguments)
    intent = plan_here(sysfs, _config(arguments), observe_only=arguments.observe)
    if arguments.writes:
        say("\n".join(f"{write.path} = {write.value}" for write in intent.writes))
    elif arguments.json:
        _say_json(say, planned.as_document(intent))
    elif arguments.format == "damo":
        from tierd.plans import damo_format

        _say_json(say, damo_format.document(intent))
    elif arguments.diff:
        from tierd.kdamonds import apply

        drift = apply.drift(sysfs, intent)
        for one in drift:
            found = "nothing" if one.found is None else repr(one.found)
            say(f"/{one.path}: wanted {one.wanted!r}, found {found}")
        return ExitCode.degraded if drift else ExitCode.ok
    else:
        say(planned.as_text(intent, terminal.columns()))
    return ExitCode.ok


def tiers(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """The topology, and how each node got its tier."""
    from tierd.machine import discovery
    from tierd.views import render

    topology = discovery.survey(_machine(arguments), _config(arguments).tiers)
    if arguments.json:
        _say_json(say, render.tiers_document(topology))
    else:
        say(render.tiers_text(topology).rstrip())
    return ExitCode.ok if len(topology.tiers) > 1 else ExitCode.unsupported


def check(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Validate a configuration."""
    from tierd.configuration import configfile, configtext
    from tierd.machine import discovery

    path = arguments.file or configfile.CONFIG
    drop_ins = configfile.DROP_INS if arguments.file is None else None
    nodes = discovery.nodes(_machine(arguments))
    checked = configtext.check(path, drop_ins, required=arguments.file is not None, nodes=nodes)
    say("\n".join(checked.lines))
    return checked.exit_code


def doctor(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Every precondition, with evidence and fix; only reads."""
    from tierd.clock import SystemClock
    from tierd.doctor import checkup
    from tierd.doctor import doctor as judge
    from tierd.sysfs import RealSysfs

    folder = run_dir(arguments)
    found = checkup.look(
        RealSysfs(arguments.root), SystemClock(), folder, lambda: _config(arguments)
    )
    findings = found.findings
    if arguments.bundle:
        checkup.write_bundle(found, folder, arguments.bundle)
        say(f"wrote {arguments.bundle}: read it before you send it")
    elif arguments.json:
        _say_json(say, judge.as_document(findings))
    else:
        _say_painted(arguments, say, judge.as_text(findings))
    return judge.exit_code(findings)


def status(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """The daemon's last snapshot; never makes the kernel work."""
    import time

    from tierd.views import statusview

    document = client.get(run_dir(arguments).run / SOCKET, "/v1/status")
    if arguments.json:
        _say_json(say, document)
    else:
        shown = statusview.text(document, time.time(), terminal.columns())
        _say_painted(arguments, say, shown)
    return ExitCode.degraded if document["state"] == "degraded" else ExitCode.ok


def why(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """From reading to decision, over the last ticks."""
    from tierd.views import whyview

    node = whyview.node_id(arguments.node)
    looks = client.get(run_dir(arguments).run / SOCKET, "/v1/recent")["looks"]
    say(whyview.text(looks, node, terminal.columns()))
    return ExitCode.ok


def top(arguments: argparse.Namespace, _say: Say) -> ExitCode:
    """A live view."""
    from tierd.console import top as live

    path = run_dir(arguments).run / SOCKET
    colour = terminal.has_colour(arguments.no_color)
    return live.run(lambda: client.get(path, "/v1/status"), colour=colour)


def observe(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """`run --observe` for a while, and then what tierd would do."""
    arguments.observe, arguments.demo = True, False
    return run(arguments, say)


def events(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """What happened, from disk; the daemon need not run."""
    import time

    from tierd.console import lookback

    folder = run_dir(arguments)
    since = None if arguments.since_ms is None else time.time() - arguments.since_ms / 1000
    shown = lookback.kept_events(folder, since)
    if arguments.follow:
        for one in lookback.follow(folder, shown, time.sleep):
            say(lookback.one_line(one, as_json=arguments.json))
    say(lookback.events_json(shown) if arguments.json else lookback.events_text(shown, folder))
    return ExitCode.ok


def history(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """How it went, from disk; the daemon need not run."""
    import time

    from tierd.console import lookback
    from tierd.views import plots

    folder, now = run_dir(arguments), time.time()
    since = now - arguments.since_ms / 1000
    if arguments.json:
        say(lookback.history_json(folder, since, now))
    elif arguments.svg:
        lookback.write_svg(folder, since, now, arguments.svg)
        say(f"wrote {arguments.svg}")
    else:
        ink = plots.ink_for(sys.stdout.encoding)
        say(lookback.history_text(folder, since, now, terminal.columns(), ink))
    return ExitCode.ok


UNTOUCHED = "nothing to restore: nothing that tierd did stands in this kernel"


def restore(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Undo what a daemon that is gone has left, or make it safe for the next one."""
    from tierd.clock import SystemClock
    from tierd.kdamonds import apply
    from tierd.kdamonds.restore import saved_in
    from tierd.loop import systemd
    from tierd.record import rundir
    from tierd.units import format_ids

    if arguments.after_service and systemd.ended_well(os.environ):
        return ExitCode.ok
    folder = run_dir(arguments)
    state = saved_in(folder)
    if state is None:
        say(f"nothing to restore: there is no {folder.run / STATE}")
        return ExitCode.ok
    clock = SystemClock()
    sysfs = _machine(arguments)
    if arguments.print:
        writes = apply.restore_writes(sysfs, clock, state)
        # A line that a shell takes, as the others are.
        say("\n".join(f"echo {one.value} > /{one.path}" for one in writes) or f"# {UNTOUCHED}")
        return ExitCode.ok
    try:
        lock = folder.lock()
    except Conflict as error:
        raise Conflict(
            f"{error}: it would only start again what is undone here",
            "stop it, which restores everything: `systemctl stop tierd`",
        ) from error
    try:
        if arguments.after_service and systemd.restart_follows(os.environ):
            told = apply.rest(sysfs, clock, state)
            say(f"kdamonds at rest until tierd is back: {format_ids(told) or 'none'}")
            return ExitCode.ok
        restored = apply.restore(sysfs, clock, state)
    finally:
        os.close(lock)
    for line in restored.done:
        say(f"restored {line}")
    for line in restored.left:
        say(f"left {line}")
    if not restored.done and not restored.left:
        say(UNTOUCHED)
    rundir.remove(folder.run / STATE)
    return ExitCode.ok


def ask_loop(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Have the daemon do what the verb says; its answer is ours."""
    answer = client.post(run_dir(arguments).run / SOCKET, f"/v1/{arguments.verb}")
    code = ExitCode(answer["exit_code"])
    if code is not ExitCode.ok:
        raise Refused(answer["text"], code)
    say(answer["text"])
    return code


class Refused(TierdError):
    """The daemon did not do it."""

    def __init__(self, text: str, code: ExitCode) -> None:
        super().__init__(text)
        self.exit_code = code


def print_shipped(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """A file that comes with tierd, for those who installed it without a package."""
    from tierd.console import shipped

    say(shipped.text(arguments.what).rstrip("\n"))
    return ExitCode.ok


COMMANDS = {
    "run": run,
    "plan": plan,
    "tiers": tiers,
    "check": check,
    "doctor": doctor,
    "events": events,
    "history": history,
    "status": status,
    "observe": observe,
    "top": top,
    "why": why,
    "restore": restore,
    "print": print_shipped,
    "reload": ask_loop,
    "pause": ask_loop,
    "resume": ask_loop,
}


def run_dir(
    arguments: argparse.Namespace, *, simulated: bool = False, starts: bool = False
) -> RunDir:
    """Where the daemon's files are: as said, as systemd says, or by who asks."""
    run, state = Path("/run/tierd"), Path("/var/lib/tierd")
    name = "tierd-simulated" if simulated else "tierd"
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"{name}-{os.geteuid()}"
    # Who only asks, and runs no daemon of their own, means that of the system.
    if simulated or (os.geteuid() != 0 and (starts or own.exists())):
        run = state = own
    return RunDir(
        run=arguments.run_dir or _first_path("RUNTIME_DIRECTORY") or run,
        state=arguments.state_dir or _first_path("STATE_DIRECTORY") or state,
    )


def _first_path(variable: str) -> Path | None:
    """systemd may list several directories, separated by colons; the first is the service's."""
    value = os.environ.get(variable, "")
    return Path(value.split(":")[0]) if value else None


def _machine(arguments: argparse.Namespace) -> "PatientSysfs":
    from tierd.clock import SystemClock
    from tierd.sysfs import PatientSysfs, RealSysfs

    return PatientSysfs(RealSysfs(arguments.root), SystemClock())


def _config(arguments: argparse.Namespace) -> "Config":
    from tierd.configuration import configfile
    from tierd.machine import discovery

    named = arguments.config is not None
    path = arguments.config if named else configfile.CONFIG
    drop_ins = None if named else configfile.DROP_INS
    nodes = discovery.nodes(_machine(arguments))
    return configfile.load(path, drop_ins, required=named, nodes=nodes).config


def _simulated_stage(name: str) -> "Stage":
    from tierd.loop import service
    from tierd.sim import demo

    shown = demo.demo(name)
    return service.Stage(
        name=f"{shown.name} (Linux {demo.PROFILE})",
        sysfs=shown.kernel,
        clock=shown.clock,
        boot_id="simulated",
        inbox_over=lambda inbox: service.AdvancingInbox(inbox, shown.kernel),
        shown=shown,
    )


def _say_painted(arguments: argparse.Namespace, say: Say, text: str) -> None:
    say(terminal.painted(text) if terminal.has_colour(arguments.no_color) else text)


def _say_json(say: Say, document: Mapping[str, Any]) -> None:
    say(json.dumps(document, indent=2))
