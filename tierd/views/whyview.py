"""The text of `tierd why NODE`: the last readings of a node, the decisions, and the reasons."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tierd.errors import ExitCode, TierdError
from tierd.record.sensed import cold_used_bytes, hot_used_bytes, is_headroom_short
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import bars_view
from tierd.views.plots import ASCII, Ink
from tierd.views.render import moment
from tierd.views.statusview import hinted_line, wrapped

Look = Mapping[str, Any]

# How many of the last changes of a decision are shown; `tierd history` goes further back.
TURNS_MAX = 6

_NOUNS = {"promote": "promotion", "demote": "demotion", "evict": "eviction"}

# Matches the figures in a reason. Two reasons that differ only in figures count as the same.
_FIGURE = re.compile(r"\d[\d.]*( ?([KMGT]i?)?B(/s)?| ?%)?")


class Turn(NamedTuple):
    """A period in which a scheme had the same reason, with its last figures."""

    at: float
    lasted_s: float
    reason: str
    moved_bytes_per_s: float


class NoSuchNode(TierdError):
    """The word names no node with memory."""

    exit_code = ExitCode.usage


def node_id(word: str) -> int:
    """Return the number of the node that `1` or `node1` names."""
    digits = word.removeprefix("node")
    if not digits.isdecimal():
        raise NoSuchNode(
            f"{word!r} is no node", "write it as in `tierd why 1` or `tierd why node1`"
        )
    return int(digits)


def text(looks: Sequence[Look], node: int, columns: int, ink: Ink = ASCII) -> str:
    """Return the state of the node and, for each of its schemes, the decisions and reasons."""
    if not looks:
        return "tierd has not read the machine yet"
    last = looks[-1]
    known = [one["numa_node"] for one in last["nodes"]]
    if node not in known:
        listed = ", ".join(str(one) for one in known)
        raise NoSuchNode(f"there is no node {node} with memory", f"there are: {listed}")
    span = format_duration_us(max(1, round((last["at"] - looks[0]["at"]) * 1e6)))
    lines = [f"node{node}, over the last {span} ({len(looks)} readings)", ""]
    lines += [line for said in _readings(last, node) for line in wrapped(said, columns, "  ")]
    for scheme in last["schemes"]:
        if node in (scheme["source_node"], scheme["target_node"]):
            lines += ["", *_scheme(looks, scheme, columns)]
    charts = list(bars_view.drawn(looks, node, columns, ink))
    lines += ["", *charts] if charts else []
    for one in last.get("hint_faults", ()):
        # They bring pages up to a node from all slower ones.
        lines += ["", *wrapped(f"promotion by {hinted_line(one)}", columns)]
    if len(lines) == 2 + len(_readings(last, node)):
        lines += ["", "No scheme moves memory to or from this node: see `tierd tiers`."]
    return "\n".join(lines)


def _readings(last: Look, node: int) -> list[str]:
    """Return the last figures of the node, each with its target if it has one."""
    one = next(each for each in last["nodes"] if each["numa_node"] == node)
    size, free = one["size_bytes"], one["free_bytes"]
    said = [f"free: {format_size(free)} of {format_size(size)} ({_share(free, size)})"]
    target = one["headroom_target_bytes"]
    if target:
        missing = target - free
        how = f"{format_size(missing)} short" if missing > 0 else "kept"
        if missing > 0 and not is_headroom_short(free, target):
            how += ", which is normal for a moment"
        said.append(f"headroom: {format_size(target)} ({_share(target, size)}), {how}")
    if one.get("hot_bytes") is not None:
        hot = hot_used_bytes(size, free, one["hot_bytes"])
        said.append(f"hot, could be promoted: {format_size(hot)}")
    if one.get("cold_bytes") is not None:
        cold = cold_used_bytes(size, free, one["cold_bytes"])
        said.append(f"cold, could be demoted: {format_size(cold)}")
    said += [
        f"goal {goal['goal']}: {format_percent(goal['current_bp'])}, aims at "
        f"{format_percent(goal['target_bp'])}"
        for goal in last["goals"]
        # The other tuners do not use these goals; the reasons tell what they aim at.
        if goal["goal"].endswith(f":{node}") and last["tuner"] in ("kernel", "emulated")
    ]
    return said


def _share(part: int, whole: int) -> str:
    return format_percent(part * 10_000 / whole)


def _scheme(looks: Sequence[Look], now: Mapping[str, Any], columns: int) -> Iterator[str]:
    yield from wrapped(f"{now['scheme']}: {sentence(looks[-1]['state'], now)}", columns)
    for turn in turns(looks, now["scheme"]):
        yield from wrapped(_turn_line(turn), columns, "  ")
    for said in figures(now):
        yield from wrapped(said, columns, "  ")


def figures(scheme: Mapping[str, Any]) -> Iterator[str]:
    """Return sentences about the quota of a scheme, and about how much of its try has moved."""
    quota = scheme["quota_effective_bytes"]
    if quota is not None:
        may = "nothing" if scheme.get("parked") else format_size(quota)
        most = format_size(scheme["quota_bytes_max"])
        yield f"quota: {may} per window now, {most} per window at most"
    tried, moved = scheme.get("tried_bytes_total", 0), scheme["applied_bytes_total"]
    if tried:
        yield (
            f"moved {format_size(moved)} of the {format_size(tried)} that it picked: the rest was "
            "free, was left out by a filter, or could not be moved"
        )


def sentence(state: str, scheme: Mapping[str, Any]) -> str:
    """Return a sentence that says what the scheme does now, and why."""
    what = _NOUNS.get(scheme["action"], "demotion")
    if goes_by_page(scheme):
        what += " by page"
    way = f"{what} {path(scheme, 'from', 'to')}"
    how, _, because = _why((0.0, state, scheme)).partition(": ")
    if not because:
        return f"{way}: {how}"
    if how.startswith(("parked", "closed")):
        return f"{way} is {how} because {because}"
    if how.startswith("visits"):
        return f"{way} {how}: {because}"
    if how.startswith("waits"):
        return f"{way} {how} because {because}"
    return f"{way} goes {how}, for {because}"


def goes_by_page(scheme: Mapping[str, Any]) -> bool:
    """True if the scheme looks at single pages, and not at regions."""
    return "-pages-" in str(scheme["scheme"])


def path(scheme: Mapping[str, Any], begin: str, end: str) -> str:
    """Return from where to where a scheme moves memory, with words before the two places."""
    evicts = scheme["action"] == "evict"
    target = "storage" if evicts else f"node{scheme['target_node']}"
    return f"{begin} node{scheme['source_node']} {end} {target}".strip()


def turns(looks: Sequence[Look], scheme: str) -> list[Turn]:
    """Return the last periods in which the scheme's reason was the same, oldest first."""
    seen = [
        (look["at"], look["state"], one)
        for look in looks
        for one in look["schemes"]
        if one["scheme"] == scheme
    ]
    found = []
    for _, grouped in groupby(seen, key=lambda each: (each[1], _FIGURE.sub("", _why(each)))):
        stretch = list(grouped)
        begin, last = stretch[0][0], stretch[-1]
        moved = sum(one["applied_bytes_per_s"] for _, _, one in stretch) / len(stretch)
        found.append(Turn(begin, last[0] - begin, _why(last), moved))
    return found[-TURNS_MAX:]


def _turn_line(turn: Turn) -> str:
    since = f" for {lasted(turn)}" if turn.lasted_s > 0 else ""
    moving = f"; moved {format_rate(turn.moved_bytes_per_s)}" if turn.moved_bytes_per_s else ""
    return f"{moment(turn.at)}{since}: {turn.reason}{moving}"


def lasted(turn: Turn) -> str:
    """Return the length of the period in words."""
    return format_duration_us(max(1, round(turn.lasted_s * 1e6)))


def _why(seen: tuple[float, str, Mapping[str, Any]]) -> str:
    _, state, scheme = seen
    if state == "paused":
        return "paused by `tierd pause`"
    return str(scheme.get("reason") or "no reason was given")
