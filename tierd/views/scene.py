"""What the program of a simulated machine does, and how well tierd followed it.

The simulated machine knows which pages are hot. No file of a kernel shows that.
"""

from collections.abc import Sequence

from tierd.frozen import dataclass, replace
from tierd.units import format_duration_us
from tierd.views.render import table


@dataclass(frozen=True, slots=True)
class Act:
    """A way to use memory."""

    name: str
    about: str
    lasts_s: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A simulated machine at one moment."""

    act: Act
    number: int
    acts: int
    round: int
    """How often the acts have begun, counted from 1."""
    left_s: float
    hot_bytes: tuple[tuple[int, int], ...]
    """The hot bytes on each node."""
    fast_nodes: tuple[int, ...]

    @property
    def hot_share_fast(self) -> float | None:
        """The share of the hot data that is on the fastest tier; None if nothing is hot."""
        total = sum(size for _, size in self.hot_bytes)
        fast = sum(size for nid, size in self.hot_bytes if nid in self.fast_nodes)
        return fast / total if total else None


# An act counts as mastered when this share of the hot data is on the fastest tier.
MASTERED_SHARE = 0.9

# A summary has at most two rounds of the acts.
CHAPTERS_MAX = 10


@dataclass(frozen=True, slots=True)
class Chapter:
    """What came of one act."""

    act: Act
    number: int
    round: int
    began_s: float
    share_first: float | None
    share_last: float | None
    mastered_s: float | None = None
    """Seconds until `MASTERED_SHARE` of the hot data was on the fastest tier."""


def told(chapters: Sequence[Chapter], scene: Scene, now_s: float) -> tuple[Chapter, ...]:
    """Return the chapters with one more look at the machine."""
    share = scene.hot_share_fast
    last = chapters[-1] if chapters else None
    if last is None or (last.number, last.round) != (scene.number, scene.round):
        chapter = Chapter(scene.act, scene.number, scene.round, now_s, share, share)
        before = tuple(chapters)
    else:
        chapter, before = replace(last, share_last=share), tuple(chapters[:-1])
    if chapter.mastered_s is None and share is not None and share >= MASTERED_SHARE:
        chapter = replace(chapter, mastered_s=now_s - chapter.began_s)
    return (*before, chapter)[-CHAPTERS_MAX:]


def chapters_text(chapters: Sequence[Chapter]) -> str:
    """Return a table of the acts and of what came of them."""
    heads = ("THE PROGRAM", "HOT DATA IN FAST MEMORY", f"{MASTERED_SHARE:.0%} AFTER")
    return "\n".join(table([heads, *map(_row, chapters)]))


def _row(chapter: Chapter) -> tuple[str, ...]:
    if chapter.share_first is None or chapter.share_last is None:
        return (chapter.act.name, "nothing is hot", "-")
    took = chapter.mastered_s
    if took is None:
        after = "not in this time"
    else:
        after = format_duration_us(round(took * 1e6)) if took > 0 else "already there"
    return (chapter.act.name, f"{chapter.share_first:.0%} -> {chapter.share_last:.0%}", after)
