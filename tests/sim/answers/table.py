"""All questions by area, and the answers as JSON to store.

Many files answer equally: each different answer is stored once, with a number.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.sim.answers import questions, surroundings, wrong_contexts
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
    "starts": wrong_contexts.starts,
    "commits": wrong_contexts.commits,
    "exclusion": surroundings.exclusion,
    "parameters": surroundings.parameters,
    "settings": surroundings.settings,
    "blocks": surroundings.blocks,
}

Table = dict[str, dict[str, Answer]]


def ask(sysfs: Sysfs, clock: Clock, area: str) -> dict[str, Answer]:
    """Return all answers of an area; repeated questions are numbered."""
    asked = Asked(sysfs, clock)
    clear(asked)
    found: dict[str, Answer] = {}
    for question, answer in AREAS[area](asked):
        times = sum(known.partition(" #")[0] == question for known in found)
        found[f"{question} #{times + 1}" if times else question] = answer
    clear(asked)
    return found


def kept(table: Table) -> str:
    """Return the answers as JSON, with each different answer stored once."""
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
    """Return the recorded answers of the real kernel of a series."""
    raw = json.loads((HERE / f"answers-{series}.json").read_text())
    return {
        area: {question: raw["answers"][number] for question, number in numbers.items()}
        for area, numbers in raw["areas"].items()
    }
