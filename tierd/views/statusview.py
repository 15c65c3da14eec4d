"""`tierd status` and the parts that `tierd top` shares with it: the daemon's snapshot, in words.

What is drawn is the JSON document of the API, as it comes over the socket; a field that an older
daemon does not send is not drawn.
"""

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from tierd.record.sensed import cold_used_bytes, hot_used_bytes
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views.render import event_line, table

Status = Mapping[str, Any]

# A snapshot comes with every tick, which is a second unless configured otherwise: after this long
# the daemon is stuck, and its figures are of another time.
STALE_S = 30.0

# Headroom that is short by less than this share comes and goes with every allocation.
SHORT_SHARE = 0.1

# What helps most in a state; else it depends.
NEXT = {
    "degraded": "tierd doctor | tierd events",
    "paused": "tierd resume",
    "observing": "tierd plan, then `mode: manage` in the configuration and tierd reload",
}

BAR_CELLS_MIN, BAR_CELLS_MAX = 10, 60
USED, COLD, HOT, FREE, GOAL = "#", "-", "+", ".", "|"
LEGEND = f"{USED} used   {COLD} cold   {HOT} hot   {FREE} free   {GOAL} headroom"

# DAMON moves whole pages, so that less than one is nothing; some are larger, and none smaller.
PAGE_BYTES = 4096

# Narrower than this, tables and bars leave out what can be looked up elsewhere.
WIDE = 76


def text(status: Status, now: float, columns: int) -> str:
    """`tierd status`: the verdict first, then what it rests on, then what to try next."""
    if "at" not in status:
        return "STARTING: the first reading is not there yet\n\nnext: tierd status"
    lines = [*wrapped(verdict(status, now), columns), *wrapped(_who(status), columns, "  "), ""]
    lines += [*node_lines(status["nodes"], columns), f"  {LEGEND}"]
    if status["schemes"]:
        lines += ["", *scheme_lines(status["schemes"], columns)]
    for title, entries in (
        ("degraded because", status["degraded"]),
        ("neighbours", status["conflicts"]),
        ("last events", [event_line(event) for event in status["events"][-5:]]),
    ):
        if entries:
            lines += ["", title]
            lines += [line for entry in entries for line in wrapped(entry, columns, "  ")]
    return "\n".join([*lines, "", f"next: {next_step(status)}"])


def wrapped(line: str, columns: int, indent: str = "") -> list[str]:
    """A line that is too long goes on below, a little further in."""
    return textwrap.wrap(line, columns, initial_indent=indent, subsequent_indent=indent + "  ") or [
        indent.rstrip()
    ]


def verdict(status: Status, now: float) -> str:
    """The one line that says how it goes."""
    age = max(0.0, now - status["at"])
    state = str(status["state"])
    said = _how(status, state)
    parts = [f"{state.upper()}: {said}"]
    if state in ("active", "degraded"):
        up, down = rate(status, "promote"), rate(status, "demote")
        parts.append(f"{format_rate(up)} up, {format_rate(down)} down")
    parts.append(f"kdamonds {format_percent(cpu_share(status) * 10_000)} of a CPU")
    parts.append(f"sample {age:.0f} s old")
    if age > STALE_S:
        parts.insert(0, f"STUCK: no look at the machine for {age:.0f} s, see `journalctl -u tierd`")
    return "; ".join(parts)


def _how(status: Status, state: str) -> str:
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
        f"nothing moves; {format_size(hot or 0)} hot below and {format_size(cold or 0)} cold above"
    )


def _room(status: Status) -> str:
    short = [
        f"{format_size(target - node['free_bytes'])} on node{node['numa_node']}"
        for node in status["nodes"]
        if (target := node["headroom_target_bytes"])
        and node["free_bytes"] < target * (1 - SHORT_SHARE)
    ]
    if short:
        return f"headroom is short by {', '.join(short)}"
    return "headroom is kept" if any(n["headroom_target_bytes"] for n in status["nodes"]) else ""


def _waiting(status: Status) -> str:
    hot = hot_below(status)
    if hot is None:
        return _room_above(status)
    largest = max((node["size_bytes"] for node in status["nodes"]), default=0)
    # A thousandth of a node is noise of sampling.
    return f"{format_size(hot)} hot below" if hot * 1000 > largest else "nothing hot waits below"


def _room_above(status: Status) -> str:
    """Where promotion has not reached its goal, which is no fault if nothing more is hot."""
    unmet = [
        f"node{goal['goal'].rpartition(':')[2]}"
        for goal in status["goals"]
        if goal["goal"].startswith("node_mem_used_bp:") and goal["current_bp"] < goal["target_bp"]
    ]
    return f"room for more on {', '.join(unmet)}" if unmet else ""


def hot_below(status: Status) -> int | None:
    """Hot memory that could go up, on all nodes; None where nobody senses it."""
    known = [hot for node in status["nodes"] if (hot := _hot(node)) is not None]
    return sum(known) if known else None


def cold_above(status: Status) -> int | None:
    """Cold data that could go down, on all nodes; None where nobody senses it."""
    known = [cold for node in status["nodes"] if (cold := _cold(node)) is not None]
    return sum(known) if known else None


def _hot(node: Mapping[str, Any]) -> int | None:
    hot = node.get("hot_bytes")
    return None if hot is None else hot_used_bytes(node["size_bytes"], node["free_bytes"], hot)


def _cold(node: Mapping[str, Any]) -> int | None:
    cold = node.get("cold_bytes")
    if cold is None:
        return None
    return cold_used_bytes(node["size_bytes"], node["free_bytes"], cold)


def rate(status: Status, action: str) -> float:
    """Bytes per second that go one way now."""
    return float(
        sum(one["applied_bytes_per_s"] for one in status["schemes"] if one["action"] == action)
    )


def cpu_share(status: Status) -> float:
    """What the kdamonds have used of a CPU since the daemon started."""
    seconds = status["at"] - status["started_at"]
    used = sum(
        one["cpu_seconds_total"] - one.get("cpu_seconds_before", 0.0) for one in status["kdamonds"]
    )
    return float(used / seconds) if seconds > 0 else 0.0


def _who(status: Status) -> str:
    ran = format_duration_us(max(1, round((status["at"] - status["started_at"]) * 1e6)))
    up = sum(one["up"] for one in status["kdamonds"])
    stale = status["refreshed_seconds_ago"]
    old = "" if stale is None or stale < 1 else f", counters {stale:.0f} s older than the sample"
    return (
        f"tierd {status['version']} on {status['machine']} for {ran}, mode {status['mode']}, "
        f"{up} of {len(status['kdamonds'])} kdamonds up{old}; "
        f"tuner {status['tuner']}: {status['tuner_reason']}"
    )


def node_lines(nodes: list[Mapping[str, Any]], columns: int) -> list[str]:
    """A bar for each node, fastest tier first."""
    ordered = sorted(nodes, key=lambda node: (_rank(node["tier"]), node["numa_node"]))
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


def _rank(tier: str) -> int:
    """The kernel's tiers and those of an override are numbered, fastest first."""
    number = re.search(r"\d+$", tier)
    return int(number[0]) if number else 0


def _tail(node: Mapping[str, Any]) -> str:
    target = node["headroom_target_bytes"]
    kept = f", keeps {format_size(target)}" if target else ""
    return f"{format_size(node['size_bytes'])}, free {format_size(node['free_bytes'])}{kept}"


def bar(node: Mapping[str, Any], cells: int) -> str:
    """What fills a node: used, of which cold or hot, and free, with the headroom marked."""
    size, free = node["size_bytes"], node["free_bytes"]
    used = round((size - free) / size * cells)
    marked, sign = _hot(node) or _cold(node) or 0, HOT if _hot(node) else COLD
    # A little of it is shown as one cell: that it is there matters more than how much.
    part = max(1 if marked * 200 > size else 0, round(marked / size * cells))
    part = min(part, used)
    drawn = list(USED * (used - part) + sign * part + FREE * (cells - used))
    target = node["headroom_target_bytes"]
    if target:
        drawn[max(0, min(cells - 1, cells - round(target / size * cells)))] = GOAL
    return "".join(drawn)


def scheme_lines(schemes: list[Mapping[str, Any]], columns: int) -> list[str]:
    """What each scheme does, as a table, and why, below it."""
    rows = [_HEADS, *(_row(scheme) for scheme in schemes)]
    if columns < WIDE:
        rows = [(*row[:3], row[4]) for row in rows]
    reasons = [
        line
        for scheme in schemes
        if scheme.get("reason")
        for line in wrapped(f"{scheme['scheme']}: {scheme['reason']}", columns, "  ")
    ]
    return [*table(rows), *reasons]


_HEADS: tuple[str, ...] = ("SCHEME", "NOW", "MOVED", "TRIED", "QUOTA/WINDOW", "HIT")


def _row(scheme: Mapping[str, Any]) -> tuple[str, ...]:
    effective = scheme["quota_effective_bytes"]
    limit = format_size(scheme["quota_bytes_max"])
    if effective is None:
        quota = f"? of {limit}"
    else:
        quota = f"{format_size(effective)} of {limit}" if effective >= PAGE_BYTES else "parked"
    return (
        scheme["scheme"],
        format_rate(scheme["applied_bytes_per_s"]),
        format_size(scheme["applied_bytes_total"]),
        format_size(scheme["tried_bytes_total"]),
        quota,
        str(scheme["quota_exceeded_total"]),
    )


def next_step(status: Status) -> str:
    """The command that helps most now."""
    known = NEXT.get(status["state"])
    if known is not None:
        return known
    hot = hot_below(status)
    waiting = [n["numa_node"] for n in status["nodes"] if (_hot(n) or 0) * 2 > (hot or 1)]
    if hot and waiting and not rate(status, "promote"):
        return f"tierd why {waiting[0]} | tierd top"
    return "tierd top | tierd history"
