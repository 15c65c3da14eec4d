"""`tierd run`: the daemon in the foreground, on this machine or a simulated one."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tierd.configuration import configfile
from tierd.console.directories import options as place_options
from tierd.console.directories import run_dir
from tierd.errors import ExitCode
from tierd.loop import service
from tierd.views import terminal
from tierd.views.visible import Say

if TYPE_CHECKING:
    from tierd.loop.show import Look

# The simulated machine of `run --demo`, if tierd cannot run on this machine.
DEMO_MACHINE = "two-tier"

# The niceness of tierd, if nobody has chosen another one. Where programs want all processors, it
# gets a quarter of one of them, and a program that wakes up does not wait for it. A tick takes
# some 3 ms, so that is enough. Kernel threads of DAMON keep theirs: a program that touches a page
# on its way waits until the move has ended.
NICENESS = 5


def run(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Run the daemon in the foreground."""
    lack = service.can_run_here(arguments.root) if arguments.demo else None
    # `--simulate ''` names a machine that does not exist; it does not mean this machine.
    simulated = DEMO_MACHINE if lack and arguments.simulate is None else arguments.simulate
    if simulated is None:
        stage, scene = service.real_stage(arguments.root), None
        let_programs_first()
        does = "It moves no pages" if arguments.observe else "It moves pages"
        head = f"tierd on this machine. {does}. Ctrl-C stops it and restores everything."
    else:
        stage, scene = simulated_stage(simulated)
        head = f"tierd on the SIMULATED machine {stage.name}: this machine is not touched."
    folder = run_dir(arguments, simulated=simulated is not None)
    # Commands in later messages name the same directories.
    arguments.run_dir, arguments.state_dir = folder
    options = service.Options(
        root=arguments.root,
        folder=folder,
        config=arguments.config or configfile.CONFIG,
        config_required=arguments.config is not None,
        drop_ins=configfile.DROP_INS if arguments.config is None else None,
        observe=arguments.observe,
        for_s=None if arguments.for_ms is None else arguments.for_ms / 1000,
        display=_display(arguments, head, scene, say, simulated=simulated is not None),
    )
    if lack:
        say(f"tierd cannot run on this machine: {lack}.")
    if options.display is not None:
        say(head)
        name, where = _name(), place_options(folder)
        say(f"To see more, in a second terminal: {name} status{where}; {name} history{where}")
    return service.run(options, stage, say)


def let_programs_first() -> None:
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        # A sandbox may forbid the call, and has a setting of its own.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


def _display(
    arguments: argparse.Namespace, head: str, scene: "Look", say: Say, *, simulated: bool
) -> Callable[[str | None], service.Display] | None:
    """Return what makes the display of a run; None if nobody watches."""
    in_terminal = sys.stdout.isatty()
    if not (in_terminal or simulated):
        return None
    # Not needed by a service, which has little memory.
    from tierd.loop import show
    from tierd.views.window import Watched

    colour = terminal.has_colour(arguments.no_color)
    # A live screen needs a terminal that can move its cursor.
    moves_cursor = in_terminal and os.environ.get("TERM", "dumb") != "dumb"
    if moves_cursor and not arguments.observe and (simulated or arguments.demo):
        return lambda url: show.Screen(scene, Watched(head, url), say, colour=colour)
    return lambda url: show.Lines(scene, url, say)


def _name() -> str:
    """Return the command by which another terminal can call tierd, which may not be in PATH."""
    if shutil.which("tierd"):
        return "tierd"
    if Path(sys.argv[0]).name == "tierd":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m tierd"


def simulated_stage(name: str) -> "tuple[service.Stage, Look]":
    """Return a simulated machine at work, and the function that says what its program does."""
    from tierd.sim import demo
    from tierd.sim.shared_kernel import SharedKernel

    shown = demo.demo(name)
    kernel = SharedKernel(shown.kernel)
    stage = service.Stage(
        name=f"{shown.name} (Linux {demo.PROFILE})",
        sysfs=kernel,
        clock=kernel,
        boot_id="simulated",
        inbox_over=lambda inbox: service.AdvancingInbox(inbox, kernel),
        serves_files=True,
        advancing=kernel,
    )
    return stage, shown.scene
