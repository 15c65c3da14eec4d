"""Lies planted in the simulated kernel: the suite has to notice each, on every series.

docs/testing.md says how to plant one by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from errno import EINVAL

import pytest

from tests.contract.behaviour import SERIES, table
from tests.contract.simulated import see
from tierd.sim import context_builder, kernel_math
from tierd.sim.context_spec import SchemeSpec, SchemeStats
from tierd.sim.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Lie:
    """What is made wrong, and a behaviour that cannot be as the table says then."""

    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    noticed_by: str


def an_errno(patch: pytest.MonkeyPatch) -> None:
    """A scheme that cannot be made is EINVAL, as one would expect."""
    patch.setattr(context_builder, "ENOMEM", EINVAL)


def a_commit_rule(patch: pytest.MonkeyPatch) -> None:
    """A commit begins the counters of each scheme anew."""
    commit = Scheme.commit

    def forgetful(self: Scheme, spec: SchemeSpec) -> None:
        commit(self, spec)
        self.stats = SchemeStats()

    patch.setattr(Scheme, "commit", forgetful)


def another_commit_rule(patch: pytest.MonkeyPatch) -> None:
    """A commit of goals alone loses the limit that stands beside them."""
    commit_goals = Scheme.commit_goals

    def careless(self: Scheme, spec: SchemeSpec) -> None:
        commit_goals(self, spec)
        self.spec = replace(self.spec, quota=replace(self.spec.quota, bytes=0))

    patch.setattr(Scheme, "commit_goals", careless)


def the_goal_law(patch: pytest.MonkeyPatch) -> None:
    """The quota grows by half of the share that is missing."""
    feed = kernel_math.feed_loop_next_input

    def timid(last: int, score: int) -> int:
        return (
            (last + feed(last, score)) // 2 if score < kernel_math.SCORE_MET else feed(last, score)
        )

    patch.setattr(kernel_math, "feed_loop_next_input", timid)


def the_law_by_a_little(patch: pytest.MonkeyPatch) -> None:
    """The quota grows by two in a hundred too much: less than any eye would see."""
    feed = kernel_math.feed_loop_next_input

    def generous(last: int, score: int) -> int:
        grown = feed(last, score)
        return grown + (grown - last) // 50

    patch.setattr(kernel_math, "feed_loop_next_input", generous)


LIES = (
    Lie("an errno", an_errno, "inputs.memcg_path"),
    Lie("a commit rule", a_commit_rule, "commits.keeps_counts"),
    Lie("another commit rule", another_commit_rule, "commits.goals_only"),
    Lie("the goal law", the_goal_law, "quota.consist"),
    Lie("the goal law by a little", the_law_by_a_little, "quota.consist"),
)
BY_ID = {entry.id: entry for entry in table()}


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_is_noticed(lie: Lie, series: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = BY_ID[lie.noticed_by]
    honest = entry.problems(series, see(entry, series))
    with monkeypatch.context() as patch:
        lie.plant(patch)
        lying = entry.problems(series, see(entry, series))
    assert not honest
    assert lying, f"{entry.id} did not notice {lie.name}"
