"""Write docs/topologies.md: machines that people have, and what tierd plans for them.

Run it from the root of the project: python -m tools.write_topology_docs
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.fixtures import topologies
from tests.fixtures.topologies import Shown
from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.machine import discovery, features
from tierd.planning import plan_for
from tierd.views import render

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "topologies.md"
COLUMNS = 118


def page() -> str:
    """Return the text of the page."""
    shown = [topologies.load(name) for name in topologies.names()]
    head, tail = (topologies.HERE / f"{name}.md" for name in ("head", "tail"))
    return (
        head.read_text()
        + "".join(_part(number, one) for number, one in enumerate(shown, 1))
        + tail.read_text()
    )


def _part(number: int, one: Shown) -> str:
    lines = [
        "",
        f"## {number}. {one.title}",
        "",
        "```",
        *one.drawing,
        "```",
        "",
        *_wrapped(" ".join(one.says)),
        "",
        *_wrapped(one.origin),
        "",
        "```console",
        "$ tierd tiers; tierd plan",
        *_told(one),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _told(one: Shown) -> Iterator[str]:
    sysfs = one.sysfs()
    topology = discovery.survey(sysfs, None)
    yield from render.tiers_text(topology).rstrip().split("\n")
    yield ""
    try:
        plan = plan_for(sysfs, discovery.discover(sysfs, None), features.probe(sysfs), Config())
    except TierdError as error:
        yield from _wrapped(f"{error}: {error.hint}")
        return
    for item in plan.watches:
        yield from _wrapped(f"{item.id}: {item.reason}")
    for moves in plan.of_regions:
        yield from _wrapped(f"{moves.id}: {moves.reason}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
