"""Groups of cgroups that share the fast memory, in words: for `tierd status` and `tierd why`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tierd.units import format_size
from tierd.views.render import table

Group = Mapping[str, Any]


def lines(groups: Sequence[Group]) -> list[str]:
    """Return the groups as a table. The rest is left out if it has no memory."""
    shown = [one for one in groups if one["fast_bytes"] or one["slow_bytes"] or one["asks"]]
    rows = [
        (
            one["group"],
            format_size(one["fast_bytes"]),
            format_size(one["share_bytes"]),
            format_size(one["slow_bytes"]),
            state(one),
        )
        for one in shown
    ]
    return table([("GROUP", "ON FAST", "SHARE", "ON SLOW", "NOW"), *rows])


def state(group: Group) -> str:
    """Return what happens with the memory of a group, in a few words."""
    lacks = max(0, group["share_bytes"] - group["fast_bytes"])
    if group.get("moves") == "none":
        return "left where it is"
    if group["asks"]:
        return f"gets up to {format_size(lacks)} more"
    if group["gives"]:
        return "gives, even if it is hot"
    if group["waits"]:
        return "waits: nothing comes up"
    if group.get("moves") == "up" and not lacks:
        return "stays: it never goes down"
    # What is lacking here is cold.
    return "lends what is cold" if lacks else "has its share"


def _moved(group: Group) -> Iterator[str]:
    """Yield where the memory of a group is, and what moved. Earlier daemons do not say it."""
    tiers = group.get("bytes_by_tier")
    if tiers:
        listed = ", ".join(f"{tier} {format_size(size)}" for tier, size in tiers)
        up, down = group["up_bytes_total"], group["down_bytes_total"]
        yield (
            f"By tier: {listed}. {format_size(up)} of its memory came up to the fastest tier so "
            f"far, and {format_size(down)} went down, whoever moved it, as far as the kernel's "
            "counts of its cgroups show it."
        )


def sentences(name: str, groups: Iterable[Group]) -> list[str]:
    """Return sentences about the group with this name, as the daemon saw it last."""
    listed = list(groups)
    mine = next((one for one in listed if one["group"] == name), None)
    if mine is None:
        return [f"It is in the group {name} (`shares`), which the daemon does not know yet."]
    floor, ceiling = mine["floor_bytes"], mine["ceiling_bytes"]
    bounds = [f"at least {format_size(floor)} if it has so much memory"] if floor else []
    bounds += [] if ceiling is None else [f"at most {format_size(ceiling)}"]
    said = [
        f"It is in the group {name} (`shares`), which has {format_size(mine['fast_bytes'])} on the "
        f"fastest tier and {format_size(mine['slow_bytes'])} below. Its share is "
        f"{format_size(mine['share_bytes'])} now{' (' + ', '.join(bounds) + ')' if bounds else ''}."
    ]
    said += _moved(mine)
    if mine.get("moves") == "none":
        return [*said, "tierd leaves its memory where it is (`moves: none`)."]
    if mine.get("moves") == "up":
        said.append("Its memory never goes down (`moves: up`).")
    asking = [one["group"] for one in listed if one["asks"] and one is not mine]
    lack = "lacks some of its share" if len(asking) == 1 else "lack some of their shares"
    others = f"{' and '.join(asking)} {lack}"
    lacks = max(0, mine["share_bytes"] - mine["fast_bytes"])
    if mine["asks"]:
        said.append(
            f"It lacks {format_size(lacks)} of it. Only memory of groups that lack some comes up "
            "now, and others make room."
        )
    elif mine["gives"]:
        why = others if asking else "it is above its ceiling"
        said.append(f"Its memory goes down, even if it is hot, because {why}.")
    elif mine["waits"]:
        why = others if asking else "it is at its ceiling"
        said.append(f"Nothing of it comes up, because {why}.")
    elif lacks:
        said.append(
            f"It lacks {format_size(lacks)} of it, and did not use more lately. tierd tries again "
            "from time to time, and at once when its memory comes up."
        )
    return said
