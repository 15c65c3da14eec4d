"""The functions of the commands. Each takes the arguments, calls other modules and prints.

A command imports the modules that it needs by itself: `status` should not load YAML or the daemon.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tierd.console.arguments import ROOT
from tierd.console.directories import repeated, repeated_machine, run_dir
from tierd.errors import Conflict, ExitCode, TierdError
from tierd.record.rundir import KERNEL_SOCKET, SOCKET, STATE
from tierd.serving import client
from tierd.views import terminal
from tierd.views.visible import Say

if TYPE_CHECKING:
    from tierd.configuration.config import Config
    from tierd.console.who import Source
    from tierd.sysfs import PatientSysfs, Sysfs


def run(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Run the daemon in the foreground."""
    from tierd.console import foreground

    return foreground.run(arguments, say)


def plan(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print what tierd would do here, or where the kernel differs from it."""
    from tierd.planning import plan_here
    from tierd.views import planned

    looked = _looked(arguments)
    sysfs = _patient(looked.sysfs)
    intent = plan_here(sysfs, _config(arguments, sysfs), observe_only=arguments.observe)
    if arguments.writes:
        _say_where(looked, say, "# ")
        say("\n".join(f"{write.path} = {write.value}" for write in intent.writes))
    elif arguments.json:
        _say_json(say, planned.as_document(intent))
    elif arguments.format == "damo":
        from tierd.plans import damo_format

        _say_json(say, damo_format.document(intent))
    elif arguments.diff:
        from tierd.kdamonds import inspection

        _say_where(looked, say, "# ")
        drift = inspection.drift(sysfs, intent)
        for one in drift:
            found = "nothing" if one.found is None else repr(one.found)
            say(f"/{one.path}: expected {str(one.wanted)!r}, found {found}")
        return ExitCode.degraded if drift else ExitCode.ok
    else:
        _say_where(looked, say)
        text = planned.as_text(intent, terminal.columns(), lambda one: _hinted(arguments, one))
        say(text)
    return ExitCode.ok


def _say_where(looked: "_Looked", say: Say, mark: str = "") -> None:
    """If the output is about a simulated machine, print a line that says so."""
    if looked.simulated is not None:
        say(f"{mark}on the SIMULATED machine {looked.simulated}, not on this one:")


def tiers(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print the topology, and how each node got its tier."""
    from tierd.machine import discovery, interleave
    from tierd.views import render, weights

    looked = _looked(arguments)
    sysfs = _patient(looked.sysfs)
    config = _config(arguments, sysfs)
    topology = discovery.survey(sysfs, config.tiers, config.bandwidths)
    found = interleave.read(sysfs)
    if arguments.json:
        told = None if found is None else weights.as_document(topology, found)
        _say_json(say, render.tiers_document(topology, told))
    else:
        _say_where(looked, say)
        say(render.tiers_text(topology).rstrip())
        if config.bandwidths:
            set_for = ", ".join(f"node{node}" for node, _ in config.bandwidths)
            say(f"\nbandwidth: as the configuration says, for {set_for}")
        if found is not None:
            say("\n" + "\n".join(weights.as_lines(topology, found)))
    return ExitCode.ok if len(topology.tiers) > 1 else ExitCode.unsupported


def check(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Validate a configuration."""
    from tierd.configuration import configfile
    from tierd.console import other_machine
    from tierd.machine import discovery
    from tierd.planning import groups_now, matches_here
    from tierd.plans.groups import describe_group
    from tierd.plans.scope import describe_match

    path = arguments.file or configfile.CONFIG
    drop_ins = configfile.DROP_INS if arguments.file is None else None
    here = _patient(_looked(arguments).sysfs)
    elsewhere = arguments.machine is not None
    nodes = other_machine.nodes(arguments.machine) if elsewhere else discovery.nodes(here)
    checked = configfile.check(path, drop_ins, required=arguments.file is not None, nodes=nodes)
    say("\n".join(checked.lines))
    if checked.config is not None and not elsewhere:
        for match in matches_here(here, checked.config):
            say(f"{'' if match.cgroups else 'warning: '}{describe_match(match)}")
        for group in groups_now(here, checked.config):
            say(f"{'' if group.cgroups else 'warning: '}group {describe_group(group)}")
    return checked.exit_code


def import_policy(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print a policy of another tool as a configuration, with what became of each part."""
    from dataclasses import asdict

    from tierd.configuration import filetext
    from tierd.configuration.configfile import ConfigErrors
    from tierd.configuration.yamltext import Problem
    from tierd.importing import imported

    problems: list[Problem] = []
    text = filetext.read(arguments.file, True, problems, imported.FILE_BYTES_MAX)
    if text is None:
        raise ConfigErrors(problems, what="the policy")
    document = imported.read(str(arguments.file), text)
    if arguments.json:
        _say_json(say, asdict(document))
    else:
        say(imported.as_text(document))
    return ExitCode.ok


def doctor(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Check every precondition, and say how to fix those that fail; changes nothing."""
    from tierd.clock import SystemClock
    from tierd.doctor import checkup
    from tierd.doctor import doctor as judge

    folder = run_dir(arguments)
    looked = _looked(arguments)
    found = checkup.look(
        looked.sysfs,
        SystemClock(),
        folder,
        lambda: _config(arguments, _patient(looked.sysfs)),
        # Every user may read all of a simulated machine.
        is_root=os.geteuid() == 0 or looked.simulated is not None,
    )
    findings = found.findings
    here = looked.simulated is None and arguments.root == ROOT
    measured = checkup.measured(found, here=here) if arguments.measure else None
    if arguments.bundle:
        checkup.write_bundle(found, folder, arguments.bundle)
        say(f"wrote {arguments.bundle}; look through it before you send it")
    elif arguments.json:
        _say_json(say, checkup.document(found, measured))
    else:
        _say_where(looked, say)
        _say_painted(arguments, say, judge.as_text(findings, terminal.columns()))
        if measured is not None:
            say(checkup.measured_text(found, measured, terminal.columns()))
    return judge.exit_code(findings)


def status(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print the daemon's last snapshot; this reads no kernel file."""
    import time

    from tierd.views import statusview

    document = client.get(run_dir(arguments).run / SOCKET, "/v1/status")
    now = time.time()
    if arguments.json:
        _say_json(say, document)
    else:
        shown = statusview.text(document, now, terminal.columns())
        _say_painted(arguments, say, shown)
    return statusview.exit_code(document, now)


def why(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print the last readings of a node, or where the memory of a cgroup is, and the reasons."""
    from tierd.views import plots, whyview

    if arguments.node.startswith("/"):
        from tierd.console import who

        looked = _looked(arguments)
        _say_where(looked, say)
        source = _source(arguments, looked)
        say(who.one(source, arguments.node, terminal.columns()))
        return ExitCode.ok
    node = whyview.node_id(arguments.node)
    looks = client.get(run_dir(arguments).run / SOCKET, "/v1/recent")["looks"]
    ink = plots.ink_for(sys.stdout.encoding)
    _say_words(arguments, say, whyview.text(looks, node, terminal.columns(), ink))
    return ExitCode.ok


def top(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Show the status and who has memory on slow nodes: live in a terminal, else once."""
    looked = _looked(arguments)
    source = _source(arguments, looked)
    if sys.stdin.isatty() and sys.stdout.isatty() and not arguments.json:
        from tierd.console import top as live

        colour = terminal.has_colour(arguments.no_color)
        asked = live.Asked(source.ask, source.entries, lambda: source.processes(live.WALK_S))
        return live.run(asked, by_process=arguments.processes, colour=colour)
    if arguments.json:
        _say_json(say, source.document(with_processes=arguments.processes))
    else:
        _say_where(looked, say)
        text = source.text(terminal.columns(), with_processes=arguments.processes)
        _say_painted(arguments, say, text)
    return ExitCode.ok


def _source(arguments: argparse.Namespace, looked: "_Looked") -> "Source":
    from tierd.clock import SystemClock
    from tierd.console import who

    sysfs, path = _patient(looked.sysfs), run_dir(arguments).run / SOCKET
    config = _config(arguments, sysfs)
    return who.Source(sysfs, config, lambda: client.get(path, "/v1/status"), SystemClock())


def observe(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Do `run --observe` for a while, and then say what tierd would do."""
    arguments.observe, arguments.demo = True, False
    return run(arguments, say)


def record(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Record a profile of the memory's heat."""
    from tierd.console import record as recording

    return recording.command(arguments, say)


def simulate(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Say what a machine of another size would do with the same programs."""
    from tierd.console import simulate as asking

    return asking.command(arguments, say)


def report(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Say if it helped."""
    from tierd.console import report as comparing

    looked = _looked(arguments)
    machine = f"the SIMULATED machine {looked.simulated}" if looked.simulated else "this machine"
    return comparing.command(arguments, looked.sysfs, machine, say)


def events(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print events from disk; the daemon need not run."""
    import time

    from tierd.console import events_and_history

    folder = run_dir(arguments)
    since = None if arguments.since_ms is None else time.time() - arguments.since_ms / 1000
    shown = events_and_history.kept_events(folder, since)
    if arguments.follow:
        for one in events_and_history.follow(folder, shown, time.sleep):
            say(events_and_history.one_line(one, as_json=arguments.json))
    if arguments.json:
        say(events_and_history.events_json(shown))
    else:
        _say_words(arguments, say, events_and_history.events_text(shown, folder))
    return ExitCode.ok


# As the name of a file, as with `tar`.
STANDARD_OUTPUT = Path("-")


def history(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print or draw the history from disk; the daemon need not run."""
    import time

    from tierd.console import events_and_history
    from tierd.views import plots

    folder, now = run_dir(arguments), time.time()
    since = now - arguments.since_ms / 1000
    if arguments.json:
        say(events_and_history.history_json(folder, since, now))
    elif arguments.svg == STANDARD_OUTPUT:
        say(events_and_history.history_svg(folder, since, now).rstrip())
    elif arguments.svg:
        events_and_history.write_svg(folder, since, now, arguments.svg)
        say(f"wrote {arguments.svg}")
    else:
        ink = plots.ink_for(sys.stdout.encoding)
        say(events_and_history.history_text(folder, since, now, terminal.columns(), ink))
    return ExitCode.ok


UNTOUCHED = "nothing to restore: tierd has left no changes in this kernel"


def restore(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Undo the changes of a daemon that has ended, or park its quotas until the next one starts."""
    from shlex import quote

    from tierd.clock import SystemClock
    from tierd.kdamonds.kernel import Kernel
    from tierd.kdamonds.restore import park_quotas, restore_all, restore_writes, saved_in
    from tierd.loop import systemd
    from tierd.record import rundir
    from tierd.sysfs import TERMINAL_WAITS_MAX, RealSysfs
    from tierd.units import format_ids

    if arguments.after_service and systemd.ended_well(os.environ):
        return ExitCode.ok
    folder = run_dir(arguments)
    if folder.run.exists():
        # The state file says what to write to the kernel, so its folder must belong to us.
        rundir.require_ours(folder.run)
    state = saved_in(folder)
    if state is None:
        say(f"nothing to restore: the file {folder.run / STATE} does not exist")
        return ExitCode.ok
    if arguments.print:
        looked = _looked(arguments)
        _say_where(looked, say, "# ")
        kernel = Kernel.patient(looked.sysfs, SystemClock(), TERMINAL_WAITS_MAX)
        writes = restore_writes(kernel, state)
        # Every line can be given to a shell.
        lines = [f"echo {quote(one.value)} > {quote(f'/{one.path}')}" for one in writes]
        say("\n".join(lines) or f"# {UNTOUCHED}")
        return ExitCode.ok
    kernel = Kernel.patient(RealSysfs(arguments.root), SystemClock(), TERMINAL_WAITS_MAX)
    try:
        lock = folder.lock()
    except Conflict as error:
        raise Conflict(
            f"{error}: it would set up again what is undone here",
            "stop it, which restores everything: `systemctl stop tierd`, or Ctrl-C in its terminal",
        ) from error
    try:
        if arguments.after_service and systemd.restart_follows(os.environ):
            parked = park_quotas(kernel, state)
            say(f"kdamonds with parked quotas until tierd is back: {format_ids(parked) or 'none'}")
            return ExitCode.ok
        restored = restore_all(kernel, state)
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
    """Give the daemon the command, and print its answer."""
    answer = client.post(run_dir(arguments).run / SOCKET, f"/v1/{arguments.verb}", say)
    code = ExitCode(answer["exit_code"])
    if code is not ExitCode.ok:
        raise Refused(repeated(answer["text"], run_dir(arguments)), code)
    _say_words(arguments, say, answer["text"])
    return code


class Refused(TierdError):
    """The daemon did not carry out the command."""

    def __init__(self, text: str, code: ExitCode) -> None:
        super().__init__(text)
        self.exit_code = code


def print_shipped(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Print a file that comes with tierd, for example for an installation without a package."""
    from tierd.console import shipped

    if arguments.what == "unit":
        found = shipped.unit(_program())
    elif arguments.what == "preset":
        found = shipped.presets()
    else:
        found = shipped.text(arguments.what)
    say(found.rstrip("\n"))
    return ExitCode.ok


def _program() -> str:
    """Return the command with which systemd can run this tierd."""
    called = Path(sys.argv[0])
    # A symbolic link is not resolved: it may point to another version later.
    return str(called.absolute()) if called.name == "tierd" else f"{sys.executable} -m tierd"


COMMANDS = {
    "run": run,
    "plan": plan,
    "simulate": simulate,
    "report": report,
    "record": record,
    "tiers": tiers,
    "check": check,
    "import": import_policy,
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


class _Looked(NamedTuple):
    """The machine that a command reads, and its name if it is simulated."""

    sysfs: "Sysfs"
    simulated: str | None = None


def _looked(arguments: argparse.Namespace) -> _Looked:
    """Return the machine to read: a simulated one, the daemon's, or the files below a root."""
    from tierd.serving.remote_sysfs import RemoteSysfs
    from tierd.sysfs import RealSysfs

    name = getattr(arguments, "simulate", None)
    if name is not None:
        from tierd.console import foreground

        stage, _ = foreground.simulated_stage(name)
        return _Looked(stage.sysfs, stage.name)
    socket = run_dir(arguments).run / KERNEL_SOCKET
    # os.path.exists() is also False if we may not look into the folder.
    if arguments.root == ROOT and os.path.exists(socket):  # noqa: PTH110
        served = RemoteSysfs(socket)
        return _Looked(served, served.name)
    return _Looked(RealSysfs(arguments.root))


def _patient(sysfs: "Sysfs") -> "PatientSysfs":
    from tierd.clock import SystemClock
    from tierd.sysfs import TERMINAL_WAITS_MAX, Patience, PatientSysfs

    return PatientSysfs(sysfs, Patience.by(SystemClock(), TERMINAL_WAITS_MAX))


def _config(arguments: argparse.Namespace, sysfs: "Sysfs") -> "Config":
    from tierd.configuration import configfile
    from tierd.machine import discovery

    named = arguments.config is not None
    path = arguments.config if named else configfile.CONFIG
    drop_ins = None if named else configfile.DROP_INS
    nodes = discovery.nodes(sysfs)
    return configfile.load(path, drop_ins, required=named, nodes=nodes).config


def _hinted(arguments: argparse.Namespace, text: str) -> str:
    """Return the text, with options added to its commands so that they use the same daemon."""
    simulated = getattr(arguments, "simulate", None)
    if simulated is not None and arguments.verb in ("doctor", "plan", "tiers"):
        text = repeated_machine(text, simulated)
    return repeated(text, run_dir(arguments))


def _say_words(
    arguments: argparse.Namespace, say: Say, text: str, *, painted: bool = False
) -> None:
    """Print a text, with options added to the commands in it."""
    say(_hinted(arguments, text), painted=painted)


def _say_painted(arguments: argparse.Namespace, say: Say, text: str) -> None:
    _say_words(arguments, say, text, painted=terminal.has_colour(arguments.no_color))


def _say_json(say: Say, document: Mapping[str, Any]) -> None:
    say(json.dumps(document, indent=2))
