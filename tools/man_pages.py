"""Make the man pages: tierd(8) from the parser, tierd.yaml(5) from the table of settings."""

import argparse
import re
from collections.abc import Iterable, Iterator

from tierd import __version__
from tierd.configuration.config import Config
from tierd.configuration.settings import GROUPS, SETTINGS, Setting, in_group

# Every command has these options, so they are described once.
COMMON = ("--root", "--run-dir", "--state-dir", "--no-color")

EXIT_STATUS = (
    ("0", "All is well."),
    ("1", "The command failed; the message says why."),
    ("2", "The command line is wrong."),
    ("3", "The daemon is not running."),
    (
        "4",
        "The state is not known: no permission to ask the daemon, no answer, or, for `status`, a "
        "daemon whose last reading is more than 30 s old.",
    ),
    ("5", "Degraded, or the kernel differs from the plan."),
    ("69", "This machine or kernel lacks what tierd needs: one tier, or no DAMON."),
    ("75", "Busy: something else uses DAMON."),
    ("77", "Not permitted."),
    ("78", "The configuration has an error."),
)

FILES = (
    ("/etc/tierd/tierd.yaml, /etc/tierd/tierd.d/*.yaml", "The configuration; see tierd.yaml(5)."),
    ("/run/tierd/api.sock", "The socket at which the daemon answers: HTTP over a unix socket."),
    (
        "/run/tierd/state.json",
        "What `tierd restore` has to undo; exists while there is anything to undo.",
    ),
    ("/var/lib/tierd", "Totals, the last events, and a day of readings."),
)

_EXAMPLE = re.compile(r"^  ((?:sudo )?tierd .*?)  +(\S.*)$")


def command_page(parser: argparse.ArgumentParser) -> str:
    """Return the man page tierd(8)."""
    lines = [
        f'.TH TIERD 8 "" "tierd {__version__}" "System Administration"',
        ".SH NAME",
        r"tierd \- keep hot memory on fast nodes and cold memory on slow nodes",
        ".SH SYNOPSIS",
        r".B tierd",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH DESCRIPTION",
        *_paragraph(
            "Some machines have memory of several speeds. tierd finds these tiers and lets DAMON, "
            "a part of the kernel, watch every node and move pages in the background: hot pages to "
            "faster nodes, cold pages to slower nodes. `tierd run` is the daemon. The other "
            "commands look at the machine, ask the daemon, or undo what it did."
        ),
        ".SH EXAMPLES",
        *(line for shown, about in _examples(parser) for line in _tagged(shown, about)),
        ".SH COMMANDS",
    ]
    every = verbs(parser)
    for name, verb in every.items():
        lines += _command(name, verb)
    first = next(iter(every.values()))
    lines += [".SH OPTIONS OF EVERY COMMAND", *_options(first, common=True)]
    lines += [".SH EXIT STATUS"]
    lines += [line for code, meaning in EXIT_STATUS for line in _tagged(code, meaning)]
    lines += [".SH FILES"]
    lines += [line for path, about in FILES for line in _tagged(path, about)]
    lines += [".SH SEE ALSO", r"\fBtierd.yaml\fR(5), \fBnumactl\fR(8), \fBdaxctl\fR(1)"]
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """Return the man page tierd.yaml(5)."""
    lines = [
        f'.TH TIERD.YAML 5 "" "tierd {__version__}" "File Formats"',
        ".SH NAME",
        r"tierd.yaml \- configuration of tierd",
        ".SH SYNOPSIS",
        ".I /etc/tierd/tierd.yaml",
        ".br",
        ".I /etc/tierd/tierd.d/*.yaml",
        ".SH DESCRIPTION",
        *_paragraph(
            "No configuration is needed: an empty file means the defaults. Files of tierd.d are "
            "read after tierd.yaml, in the order of their names; a key in a later file replaces "
            "the same key of an earlier one. Quantities have units: 200MB/s, 5ms, 0.5%. `tierd "
            "check` shows every error with its line and column; `tierd reload` puts changes into "
            "use."
        ),
        ".SH KEYS",
        *(line for setting in in_group(None) for line in _setting(setting)),
    ]
    for group in GROUPS:
        lines += [f".SS {_escaped(group.key)}", *_paragraph(group.doc)]
        lines += [line for setting in in_group(group.key) for line in _setting(setting)]
    lines += [".SH EXAMPLE", ".nf", *_example(), ".fi", ".SH SEE ALSO", r"\fBtierd\fR(8)"]
    return "\n".join(lines) + "\n"


def verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def _examples(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for line in (parser.description or "").splitlines():
        match = _EXAMPLE.match(line)
        if match:
            yield match[1].strip(), match[2]


def _command(name: str, verb: argparse.ArgumentParser) -> Iterator[str]:
    yield f".SS {_escaped(_synopsis(name, verb))}"
    about = (verb.description or "").partition("\n")[0]
    yield from _paragraph(about[:1].upper() + about[1:] + ".")
    yield from _options(verb, common=False)
    for shown, does in _examples(verb):
        yield from (".PP", f"Example: \\fB{_escaped(shown)}\\fR: {_escaped(does)}.")


def _synopsis(name: str, verb: argparse.ArgumentParser) -> str:
    words = [name]
    for action in actions(verb, common=False):
        shown = action.option_strings[-1] if action.option_strings else ""
        metavar = _metavar(action)
        word = " ".join(filter(None, (shown, metavar)))
        words.append(word if action.required else f"[{word}]")
    return " ".join(words)


def _options(verb: argparse.ArgumentParser, *, common: bool) -> Iterator[str]:
    for action in actions(verb, common=common):
        shown = ", ".join(action.option_strings)
        yield from _tagged(" ".join(filter(None, (shown, _metavar(action)))), action.help or "")


def actions(verb: argparse.ArgumentParser, *, common: bool) -> Iterator[argparse.Action]:
    """Return the arguments of a verb: those that all verbs have, or only its own."""
    for action in verb._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        if bool(set(action.option_strings) & set(COMMON)) is common:
            yield action


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices is not None and action.metavar is None:
        shown = "|".join(map(str, action.choices))
    else:
        shown = str(action.metavar or action.dest.upper())
    return f"[{shown}]" if action.nargs == "?" and action.option_strings else shown


def _setting(setting: Setting) -> Iterator[str]:
    default = setting.text(Config())
    about = (
        f"{setting.doc} Takes {setting.value_type.allowed}. A reload takes it up {setting.effect}."
    )
    yield from _tagged(f"{setting.name}: {default}", about)


def _example() -> Iterator[str]:
    known = {setting.name: setting for setting in SETTINGS}
    for name in ("mode", "headroom", "rate_limit"):
        yield _escaped(f"{name}: {known[name].example}")


def _tagged(term: str, text: str) -> Iterable[str]:
    return (".TP", f".B {_escaped(term)}", *_paragraph(text)[1:])


def _paragraph(text: str) -> list[str]:
    return [".PP", _escaped(text)]


def _escaped(text: str) -> str:
    """Return the text for roff, with hyphens kept and no line taken for a command."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(cq").replace("\n", " ")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
