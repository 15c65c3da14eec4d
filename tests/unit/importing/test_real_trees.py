"""A policy that another tool wrote ends in the files that the real damo would write, or it is said
why not.

damo runs in its own process. What it would write is recorded, so no kernel is touched.
tests/e2e/test_translated.py does the same on a real kernel.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.explained import as_explained
from tests.e2e.trees import Tree
from tests.unit.importing.real import ORIGINALS, folder
from tests.unit.importing.test_imported import config_of, planned
from tierd.importing import imported
from tierd.machine.features import KDAMONDS

# Records what damo would write for each file, and answers with it.
ASK = """
import json, os, sys
import _damo_fs, _damon_args, _damon_sysfs
answers = {}
for file in sys.argv[1:]:
    read = _damon_args.kdamonds_from_yaml_arg
    if file.endswith(".json"):
        read = _damon_args.kdamonds_from_json_arg
    kdamonds, error = read(file)
    assert error is None, error
    answers[file] = made = {}
    def write(path, text):
        made[path[len("/kernel/"):]] = str(text)
    _damo_fs.write_file = write
    _damo_fs.read_file = lambda path: (made.get(path[len("/kernel/"):], "0"), None)
    there = os.path.isfile, os.path.isdir
    absent = "complement", "/pass"
    os.path.isfile = os.path.isdir = lambda path: not path.endswith(absent)
    error = _damon_sysfs.write_kdamonds_dir("/kernel", kdamonds)
    os.path.isfile, os.path.isdir = there
    assert error is None, error
json.dump(answers, sys.stdout)
"""

# damo also writes the input of goals that have none, and the marks of watermarks that are off.
VOID = re.compile(r"/(current_value|watermarks/(interval_us|high|mid|low))$")
WITH_GOALS = "tuner: kernel\n"


@cache
def damo_writes() -> dict[str, Tree]:
    found = pytest.importorskip("damo")
    done = subprocess.run(
        [sys.executable, "-c", ASK, *(str(folder() / name) for name in ORIGINALS)],
        env={**os.environ, "PYTHONPATH": str(Path(found.__path__[0])), "HOME": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Tree] = json.loads(done.stdout)
    return {Path(file).name: tree for file, tree in answers.items()}


def shape(path: str) -> str:
    return re.sub(r"\d+", "N", path)


@pytest.mark.parametrize("name", ORIGINALS)
def test_each_difference_from_damo_start_is_explained(name: str) -> None:
    document = imported.read(name, (folder() / name).read_text())
    offered = any(one.setting == "tuner" for one in document.remarks)
    for more in ("", WITH_GOALS) if offered else ("",):
        ours = writes(document.config + more)
        known = {shape(path) for path in ours}
        theirs = {
            path: text
            for path, text in damo_writes()[name].items()
            if not VOID.search(path) and (shape(path) in known or "/dests/" in path)
        }
        as_explained(f"{name} {more}", {"imported": asdict(document), "tree": theirs}, ours)


def writes(config: str) -> Tree:
    below = f"{KDAMONDS}/"
    return {
        write.path.removeprefix(below): write.value
        for write in planned(config_of(config), "two-tier-7.2").writes
        if write.path.startswith(below) and not VOID.search(write.path)
    }
