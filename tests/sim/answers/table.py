"""All questions by area, and the answers as text that is fit to be kept.

Files of one kind answer alike: their answers are kept once, under a number.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.sim.answers import around, questions, wrong
from tests.sim.answers.questions import Answer, Answers, Asked, clear
from tierd.clock import Clock
from tierd.sysfs import Sysfs

HERE = Path(__file__).parent

AREAS: dict[str, Callable[[Asked], Answers]] = {
    "values": questions.values,
    "counts": questions.counts,
    "access": questions.access,
    "lifecycle": questions.lifecycle,
    "missing": questions.missing,
    "statistics": questions.statistics,
    "tried": questions.tried,
    "starts": wrong.starts,
    "commits": wrong.commits,
    "exclusion": around.exclusion,
    "parameters": around.parameters,
    "settings": around.settings,
    "blocks": around.blocks,
}

Table = dict[str, dict[str, Answer]]


def ask(sysfs: Sysfs, clock: Clock, area: str) -> dict[str, Answer]:
    """Every answer of an area; a question that comes twice is numbered."""
    asked = Asked(sysfs, clock)
    clear(asked)
    found: dict[str, Answer] = {}
    for question, answer in AREAS[area](asked):
        times = sum(known.partition(" #")[0] == question for known in found)
        found[f"{question} #{times + 1}" if times else question] = answer
    clear(asked)
    return found


def kept(table: Table) -> str:
    """As JSON, with equal answers kept once."""
    kinds: list[Answer] = []
    numbered: dict[str, dict[str, int]] = {}
    for area, answers in table.items():
        numbered[area] = {}
        for question, answer in answers.items():
            if answer not in kinds:
                kinds.append(answer)
            numbered[area][question] = kinds.index(answer)
    lines = ",\n ".join(json.dumps(kind) for kind in kinds)
    return f'{{"areas": {json.dumps(numbered, indent=1)},\n"answers": [\n {lines}\n]}}\n'


def recorded(series: str) -> Mapping[str, Mapping[str, Answer]]:
    """What the real kernel of a series answered."""
    raw = json.loads((HERE / f"{series}.json").read_text())
    return {
        area: {question: raw["answers"][number] for question, number in numbers.items()}
        for area, numbers in raw["areas"].items()
    }
