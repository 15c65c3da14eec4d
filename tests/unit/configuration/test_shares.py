"""The setting `shares`: what it takes, what it refuses, and how it is written back."""

from pathlib import Path

import pytest

from tierd.configuration.class_values import SHARES_MAX
from tierd.configuration.config import Config, Moves, ShareClass
from tierd.configuration.configfile import load, parse
from tierd.configuration.settings import BY_FIELD
from tierd.errors import ConfigError


def read(text: str, folder: Path) -> Config:
    file = folder / "tierd.yaml"
    file.write_text(text)
    return load(file, None).config


GOOD = """\
shares:
  web: {paths: [/web.slice, "/kubepods.slice/*"], floor: 20%, ceiling: 50%}
  batch: {paths: /batch.slice, weight: 50}
  guaranteed: {paths: /guaranteed.slice, floor: 10%, moves: up}
  pinned: {paths: /pinned.slice, moves: none}
"""


def test_classes_with_patterns_floors_and_weights(tmp_path: Path) -> None:
    found = read(GOOD, tmp_path)
    assert found.shares == (
        ShareClass("web", ("/web.slice", "/kubepods.slice/*"), 2000, 5000),
        ShareClass("batch", ("/batch.slice",), weight=50),
        ShareClass("guaranteed", ("/guaranteed.slice",), 1000, moves=Moves.up),
        ShareClass("pinned", ("/pinned.slice",), moves=Moves.none),
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    first = read(GOOD, tmp_path)
    text = BY_FIELD["shares"].text(first)
    assert read(f"shares: {text}\n", tmp_path).shares == first.shares


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shares: 5\n", "expected classes by name"),
        ("shares: {web: {floor: 20%}}\n", "web: expected paths"),
        ("shares: {rest: {paths: [/w]}}\n", "rest is all other memory"),
        ("shares: {cpusets: {paths: [/w]}}\n", "cpusets is all memory that a cpuset binds"),
        (
            "shares: {web: {paths: [/w], flor: 20%}}\n",
            "floor, ceiling, weight, moves",
        ),
        ("shares: {web: {paths: [w]}}\n", "expected a path that begins with /"),
        ('shares: {web: {paths: ["/*"]}}\n', "a first part without a pattern"),
        ("shares: {web: {paths: []}}\n", "web: expected paths, found an empty list"),
        ("shares: {web: {paths: [[/w]]}}\n", "web: expected a path, found a list"),
        ("shares: {web: /w}\n", "web: expected a class, such as {paths"),
        ("shares: {web: {paths: [/w], weight: 10001}}\n", "web: weight: expected 1 to 10000"),
        ("shares: {web: {paths: [/w], floor: 60%, ceiling: 50%}}\n", "floor is above its ceiling"),
        ("shares: {web: {paths: [/w], floor: much}}\n", "web: floor: expected a percentage"),
        (
            "shares: {web: {paths: [/w], moves: down}}\n",
            "expected one of both, up, none",
        ),
        ("shares: {web: {paths: [/w], moves: none, weight: 9}}\n", "there is no weight"),
        ("shares: {web: {moves: none, floor: 9%, paths: [/w]}}\n", "there is no floor"),
        ("shares: {web: {paths: [/w], weight: 0}}\n", "web: weight: expected 1 to 10000, found"),
        (
            "shares: {a: {paths: [/a], floor: 60%}, b: {paths: [/b], floor: 60%}}\n",
            "the floors together must be at most 100%",
        ),
        (
            "shares: {a: {paths: [/a]}}\ncgroups: {b: {exclude: [/b]}}\n",
            "only one of the two can be set",
        ),
        ("shares: {a: {paths: [/a]}}\ntuner: kernel\n", "only the tuner demand keeps shares"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, tmp_path)
    assert said in str(caught.value)


def test_every_mistake_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read("shares: {a: {paths: [/a], flor: 1%}, b: {floor: 20%}, c: {paths: [c]}}\n", tmp_path)
    said = str(caught.value)
    assert "a: expected paths, floor" in said
    assert "b: expected paths, such as" in said
    assert "c: expected a path that begins with /" in said


def test_the_number_of_classes_has_a_bound_also_over_several_files() -> None:
    classes = [f"c{one}: {{paths: [/c{one}]}}" for one in range(SHARES_MAX + 1)]
    most = ("a.yaml", f"shares: {{{', '.join(classes[1:])}}}\n")
    assert len(parse([most]).config.shares) == SHARES_MAX
    with pytest.raises(ConfigError) as caught:
        parse([most, ("b.yaml", f"shares: {{{classes[0]}}}\n")])
    assert "there must be at most 16 classes" in str(caught.value)
