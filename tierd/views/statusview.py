"""The text of `tierd status`, and the parts of it that `tierd top` shows too.

The input is the JSON document that the daemon sends over its socket. A field that an older daemon
does not send is left out.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tierd.errors import ExitCode
from tierd.record.sensed import cold_used_bytes, hot_used_bytes, is_headroom_short
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import groupview
from tierd.views.render import event_line, table

Status = Mapping[str, Any]

# The daemon's name for a real machine; a simulated machine has a name of its own.
THIS_MACHINE = "this machine"

# The daemon makes a snapshot in every tick, and a tick is 1 s unless configured otherwise. If the
# last one is older than this, the daemon is stuck and its figures are out of date.
STALE_S = 30.0

# The command to try next, by state. In other states it depends on the figures.
NEXT = {
    "degraded": "tierd doctor | tierd events",
    "paused": "tierd resume",
    "observing": "tierd plan, then `mode: manage` in the configuration and tierd reload",
}

BAR_CELLS_MIN, BAR_CELLS_MAX = 10, 60
USED, COLD, HOT, FREE, GOAL = "#", "-", "+", ".", "|"
LEGEND = f"{USED} used   {COLD} cold   {HOT} hot   {FREE} free   {GOAL} headroom"

# In a narrower terminal the bars leave out the names of the tiers.
WIDE = 76


def text(status: Status, now: float, columns: int) -> str:
    """Return the text of `tierd status`: the state, the figures behind it, and what to try next."""
    if "at" not in status:
        return "STARTING: tierd has not read the machine yet\n\nnext: tierd status"
    lines = [*wrapped(verdict(status, now), columns), *wrapped(_who(status), columns, "  "), ""]
    lines += [*node_lines(status["nodes"], columns), f"  {LEGEND}"]
    if status["schemes"]:
        lines += ["", *scheme_lines(status, columns)]
    if status.get("groups"):
        lines += ["", "shares of the fastest tier", *groupview.lines(status["groups"])]
    for title, entries in (
        ("degraded because", status["degraded"]),
        ("others that move or watch memory", status["conflicts"]),
        ("last events", [event_line(event) for event in status["events"][-5:]]),
    ):
        if entries:
            lines += ["", title]
            lines += [line for entry in entries for line in wrapped(entry, columns, "  ")]
    page = status.get("page")
    shown = [f"page: {page}"] if page else []
    return "\n".join([*lines, "", *shown, f"next: {next_step(status)}"])


def wrapped(line: str, columns: int, indent: str = "") -> list[str]:
    """Return the line, broken to the width; the second and further lines are indented more."""
    return textwrap.wrap(line, columns, initial_indent=indent, subsequent_indent=indent + "  ") or [
        indent.rstrip()
    ]


def is_stuck(status: Status, now: float) -> bool:
    """True if the last snapshot is too old: the daemon answers, but its loop does not run."""
    return "at" in status and now - status["at"] > STALE_S


def exit_code(status: Status, now: float) -> ExitCode:
    """Return the exit code of `tierd status`. The state of a stuck daemon is unknown."""
    if is_stuck(status, now):
        return ExitCode.unknown
    return ExitCode.degraded if status["state"] == "degraded" else ExitCode.ok


def verdict(status: Status, now: float) -> str:
    """Return the first line of `tierd status`: the state, the rates, the cost and the age."""
    age = max(0.0, now - status["at"])
    state = str(status["state"])
    said = how(status)
    parts = [f"{state.upper()}: {said}"]
    if state in ("active", "degraded"):
        up, down = rate(status, "promote") + hinted_rate(status), rate(status, "demote")
        parts.append(f"promotes {format_rate(up)}, demotes {format_rate(down)}")
    # In a container the processor time of kernel threads cannot be read.
    if all(one.get("cpu_known", True) for one in status["kdamonds"]):
        parts.append(f"kdamonds use {format_percent(cpu_share(status) * 10_000)} of a CPU")
    parts.append(f"last reading {age:.0f} s ago")
    if is_stuck(status, now):
        parts.insert(0, f"STUCK: no new reading for {age:.0f} s, see `journalctl -u tierd`")
    return "; ".join(parts)


def how(status: Status) -> str:
    """Return the sentence of the verdict: how it goes, or why it does not."""
    state = str(status["state"])
    if state == "active":
        return ", ".join(filter(None, (_room(status), _waiting(status))))
    if state == "observing":
        return _how_observing(status)
    return "nothing moves until `tierd resume`" if state == "paused" else str(status["reason"])


def _how_observing(status: Status) -> str:
    hot, cold = hot_below(status), cold_above(status)
    if hot is None and cold is None:
        return "nothing moves"
    return (
        f"nothing moves; {format_size(hot or 0)} is hot on slower nodes, "
        f"{format_size(cold or 0)} is cold on faster nodes"
    )


def _room(status: Status) -> str:
    short = [
        f"{format_size(target - node['free_bytes'])} on node{node['numa_node']}"
        for node in status["nodes"]
        if (target := node["headroom_target_bytes"])
        and is_headroom_short(node["free_bytes"], target)
    ]
    if short:
        return f"headroom is short by {', '.join(short)}"
    return "headroom is kept" if any(n["headroom_target_bytes"] for n in status["nodes"]) else ""


def _waiting(status: Status) -> str:
    hot = hot_below(status)
    if hot is None:
        return _room_above(status)
    return (
        f"{format_size(hot)} is hot on slower nodes"
        if _is_worth_telling(status, hot)
        else "no hot memory on slower nodes"
    )


def _is_worth_telling(status: Status, hot: int) -> bool:
    """True if the bytes are more than 1/1000 of the largest node: less may be sampling noise."""
    return hot * 1000 > max((node["size_bytes"] for node in status["nodes"]), default=0)


def _room_above(status: Status) -> str:
    """Return the nodes that are not filled to their goal. If nothing more is hot, this is fine."""
    unmet = [
        f"node{goal['goal'].rpartition(':')[2]}"
        for goal in status["goals"]
        if goal["goal"].startswith("node_mem_used_bp:") and goal["current_bp"] < goal["target_bp"]
    ]
    return f"room for more on {', '.join(unmet)}" if unmet else ""


def hot_below(status: Status) -> int | None:
    """Return the hot memory on all nodes with a faster neighbour; None if it is not measured."""
    known = [hot for node in status["nodes"] if (hot := hot_of(node)) is not None]
    return sum(known) if known else None


def cold_above(status: Status) -> int | None:
    """Return the cold data on all nodes with a slower neighbour; None if it is not measured."""
    known = [cold for node in status["nodes"] if (cold := cold_of(node)) is not None]
    return sum(known) if known else None


def hot_of(node: Mapping[str, Any]) -> int | None:
    hot = node.get("hot_bytes")
    return None if hot is None else hot_used_bytes(node["size_bytes"], node["free_bytes"], hot)


def cold_of(node: Mapping[str, Any]) -> int | None:
    cold = node.get("cold_bytes")
    if cold is None:
        return None
    return cold_used_bytes(node["size_bytes"], node["free_bytes"], cold)


def rate(status: Status, action: str) -> float:
    """Return how many bytes per second all schemes with this action move now."""
    return float(
        sum(one["applied_bytes_per_s"] for one in status["schemes"] if one["action"] == action)
    )


def hinted_rate(status: Status) -> float:
    """Return how many bytes per second hint faults promote now."""
    return float(sum(one["promoted_bytes_per_s"] for one in status.get("hint_faults", ())))


def cpu_share(status: Status) -> float:
    """Return the share of a CPU that the kdamonds have used since the daemon started."""
    seconds = status["at"] - status["started_at"]
    used = sum(
        one["cpu_seconds_total"] - one.get("cpu_seconds_before", 0.0) for one in status["kdamonds"]
    )
    return float(used / seconds) if seconds > 0 else 0.0


def _who(status: Status) -> str:
    ran = format_duration_us(max(1, round((status["at"] - status["started_at"]) * 1e6)))
    machine = str(status["machine"])
    if machine != THIS_MACHINE:
        machine = f"the SIMULATED machine {machine}"
    up = sum(one["up"] for one in status["kdamonds"])
    stale = status["refreshed_seconds_ago"]
    old = "" if stale is None or stale < 1 else f", scheme counters {stale:.0f} s older"
    return (
        f"tierd {status['version']} on {machine} for {ran}, mode {status['mode']}, "
        f"{up} of {len(status['kdamonds'])} kdamonds run{old}; "
        f"tuner {status['tuner']}: {status['tuner_reason']}{_promoter(status)}"
    )


# As the document has it: a reader of the status does not load the modules of the plan, which are
# slow to load.
USUAL_PROMOTER = ("damon", "as configured")


def _promoter(status: Status) -> str:
    """Return what promotes, unless tierd's schemes do because nothing else was asked for."""
    promoter, reason = status.get("promoter", ""), status.get("promoter_reason", "")
    if not promoter or (promoter, reason) == USUAL_PROMOTER:
        return ""
    return f"; promoter {promoter}: {reason}"


def node_lines(nodes: list[Mapping[str, Any]], columns: int) -> list[str]:
    """Return a line with a bar for each node, the fastest tier first."""
    ordered = fastest_first(nodes)
    heads = [
        f"  node{node['numa_node']}" + (f" {node['tier']}" if columns >= WIDE else "")
        for node in ordered
    ]
    tails = [_tail(node) for node in ordered]
    width = max((len(head) for head in heads), default=0)
    longest = max((len(tail) for tail in tails), default=0)
    cells = min(BAR_CELLS_MAX, max(BAR_CELLS_MIN, columns - width - longest - 4))
    return [
        f"{head.ljust(width)} [{bar(node, cells)}] {tail}"
        for head, node, tail in zip(heads, ordered, tails, strict=True)
    ]


def fastest_first(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the nodes in the order of their tiers."""
    return sorted(nodes, key=lambda node: (_rank(node["tier"]), node["numa_node"]))


def _rank(tier: str) -> int:
    """Return the number at the end of a tier's name: the kernel numbers tiers, fastest first."""
    number = re.search(r"\d+$", tier)
    return int(number[0]) if number else 0


def _tail(node: Mapping[str, Any]) -> str:
    target = node["headroom_target_bytes"]
    kept = f", keeps {format_size(target)}" if target else ""
    return f"{format_size(node['size_bytes'])}, free {format_size(node['free_bytes'])}{kept}"


def bar(node: Mapping[str, Any], cells: int) -> str:
    """Draw how full a node is: used memory, the cold or hot part of it, free memory, headroom."""
    size, free = node["size_bytes"], node["free_bytes"]
    used = round((size - free) / size * cells)
    marked, sign = hot_of(node) or cold_of(node) or 0, HOT if hot_of(node) else COLD
    # Even a small part gets one cell, so that it can be seen.
    part = max(1 if marked * 200 > size else 0, round(marked / size * cells))
    part = min(part, used)
    drawn = list(USED * (used - part) + sign * part + FREE * (cells - used))
    target = node["headroom_target_bytes"]
    if target:
        drawn[max(0, min(cells - 1, cells - round(target / size * cells)))] = GOAL
    return "".join(drawn)


def scheme_lines(status: Status, columns: int) -> list[str]:
    """Return a table of the schemes, and below it the reason for what each one does."""
    schemes = status["schemes"]
    rows = [_HEADS, *(_row(scheme) for scheme in schemes)]
    reasons = [
        line
        for scheme in schemes
        # During a pause all schemes have the same reason, which is in the first line.
        if scheme.get("reason") and status["state"] != "paused"
        for line in wrapped(f"{scheme['scheme']}: {scheme['reason']}", columns, "  ")
    ]
    hinted = [
        line
        for one in status.get("hint_faults", ())
        for line in wrapped(hinted_line(one), columns, "  ")
    ]
    return [*table(rows), *reasons, *hinted]


def hinted_line(one: Mapping[str, Any]) -> str:
    """Return what hint faults bring up to a node, and how much they may."""
    return (
        f"{one['hint_faults']}: {format_rate(one['promoted_bytes_per_s'])} to node"
        f"{one['numa_node']} now, {format_size(one['promoted_bytes_total'])} since boot; "
        f"{one['reason']}"
    )


# Two figures are not in this table but in `why`, the metrics and --json: how much a scheme picked,
# and how often its quota ended a window. A scheme picks free memory too, and the quota of a parked
# scheme ends every window, so both figures look like faults when all is well.
_HEADS: tuple[str, ...] = ("SCHEME", "NOW", "MOVED", "QUOTA/WINDOW")


def _row(scheme: Mapping[str, Any]) -> tuple[str, ...]:
    effective = scheme["quota_effective_bytes"]
    limit = format_size(scheme["quota_bytes_max"])
    if effective is None:
        quota = f"? of {limit}"
    else:
        quota = "parked" if scheme.get("parked") else f"{format_size(effective)} of {limit}"
    return (
        scheme["scheme"],
        format_rate(scheme["applied_bytes_per_s"]),
        format_size(scheme["applied_bytes_total"]),
        quota,
    )


def next_step(status: Status) -> str:
    """Return the command to try next."""
    known = NEXT.get(status["state"])
    if known is not None:
        return known
    hot = hot_below(status) or 0
    waiting = [n["numa_node"] for n in status["nodes"] if (hot_of(n) or 0) * 2 > hot]
    still = not rate(status, "promote") and not hinted_rate(status)
    if waiting and _is_worth_telling(status, hot) and still:
        return f"tierd why {waiting[0]} | tierd top"
    return "tierd top | tierd history"
