"""Completion, man pages and schema are up to date, complete and right."""

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.test_tidy import ROOT
from tierd.configuration import configtext
from tierd.configuration.configfile import ConfigErrors, parse
from tierd.configuration.settings import SETTINGS, Setting
from tierd.console import commands

write_shipped = pytest.importorskip("tools.write_shipped")

TEXTS: dict[str, str] = write_shipped.texts()
STALE = "run python -m tools.write_shipped"


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_as_the_parser_and_the_table_say(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == TEXTS[name], STALE


@pytest.mark.parametrize("verb", commands.COMMANDS)
def test_no_command_is_undocumented(verb: str) -> None:
    assert f".SS {verb}" in TEXTS["man/tierd.8"]
    for shell in ("tierd.bash", "_tierd", "tierd.fish"):
        assert verb in TEXTS[f"completion/{shell}"]


@pytest.mark.parametrize("name", [setting.name for setting in SETTINGS])
def test_no_key_is_undocumented(name: str) -> None:
    assert f".B {name}:" in TEXTS["man/tierd.yaml.5"].replace("\\-", "-")


@pytest.mark.parametrize("page", ["man/tierd.8", "man/tierd.yaml.5"])
def test_the_pages_are_good_roff(page: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(ROOT / page)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""


def test_bash_takes_its_completion() -> None:
    done = subprocess.run(
        ["bash", "-n", str(ROOT / "completion/tierd.bash")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""


def test_bash_offers_the_nodes_that_there_are(tmp_path: Path) -> None:
    for name in ("node0", "node12", "online"):
        (tmp_path / name).mkdir()
    script = TEXTS["completion/tierd.bash"].replace("/sys/devices/system/node", str(tmp_path))
    press = """
    COMP_WORDS=(tierd why ""); COMP_CWORD=2; COMP_TYPE=9
    _shtab_tierd; echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script + press], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["node0", "node12"], "")


# The schema of the configuration
SCHEMA = jsonschema.Draft202012Validator(configtext.schema())


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(configtext.schema())


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_what_ships_is_valid(path: Path) -> None:
    assert list(SCHEMA.iter_errors(yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_example_is_valid(setting: Setting) -> None:
    text = _nested(setting.key, setting.example)
    assert list(SCHEMA.iter_errors(yaml.safe_load(text))) == []


def _nested(key: tuple[str, ...], example: str) -> str:
    return f"{key[0]}: {example}" if len(key) == 1 else f"{key[0]}: {{{key[1]}: {example}}}"


@pytest.mark.parametrize(
    "text",
    ["hedroom: 2%", "mode: manag", "tiers: [0]", "cgroups: {a: {include: /x, exclude: /y}}", "[]"],
)
def test_mistakes_are_seen_by_editors_too(text: str) -> None:
    assert list(SCHEMA.iter_errors(yaml.safe_load(text)))
    with pytest.raises(ConfigErrors):
        parse([("x.yaml", text)])


def test_the_schema_is_json() -> None:
    json.loads(TEXTS["schema/tierd.schema.json"])
