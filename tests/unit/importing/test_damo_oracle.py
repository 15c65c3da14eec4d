"""The real damo turns commands into files; a file and its command give the same.

damo runs in its own process. The functions that look at the machine are replaced, so that it reads
and writes no kernel file.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.unit.importing.policies import DOWN, UP
from tests.unit.importing.test_damo_command import POLICIES
from tierd.configuration import yamltext
from tierd.importing import damo_command, imported, policy_file, shell_text
from tierd.importing.foreign import Bounds, Context, ForeignPolicy, Quota, Scheme

# Answers with the JSON and the YAML of each command, as `damo args damon` prints them. Node N has
# the addresses from N GiB on.
ASK = """
import argparse, json, sys
import _damo_sysinfo, _damo_yaml, _damon_args, damo_report_pa_layout
_damo_sysinfo.damon_feature_available = lambda _: True
def ranges(nodes):
    return [[node << 30, (node + 1) << 30] for node in nodes], None
damo_report_pa_layout.numa_addr_ranges = ranges
damo_report_pa_layout.default_paddr_region = lambda: [0, 1 << 30]
answers = []
for words in json.load(sys.stdin):
    parser = argparse.ArgumentParser()
    _damon_args.set_damon_params_argparser(parser, min_help=False)
    sys.argv = list(words)
    kdamonds, error = _damon_args.kdamonds_for(parser.parse_args(words))
    assert error is None, error
    made = {"kdamonds": [one.to_kvpairs(params_only=True) for one in kdamonds]}
    answers.append([json.dumps(made, indent=4), _damo_yaml.dump(made)[0]])
json.dump(answers, sys.stdout)
"""

TWO = "--nr_targets 1 1 --nr_schemes 1 1 --nr_ctxs 1 1"
COMMANDS = {
    "cover letter": (POLICIES / "cover-letter.txt").read_text(),
    "bare": f"damo start {UP}",
    # The options of HMSDK's generator with --global: damo 3.4 takes one filter per scheme.
    "HMSDK": (
        "damo start --numa_node 0 --monitoring_intervals 100ms 2s 20s "
        f"--monitoring_nr_regions_range 100 10000 {DOWN} --damos_sz_region 4096 max "
        "--damos_filter young matching --damos_access_rate 0% 0% --damos_age 30s max "
        "--damos_quotas 1s 50G 20s 0 0 1% "
        "--numa_node 1 --monitoring_intervals 100ms 2s 20s "
        f"--monitoring_nr_regions_range 100 10000 {UP} --damos_sz_region 4096 max "
        "--damos_filter young nomatching --damos_access_rate 5% 100% --damos_age 0 max "
        f"--damos_quotas 2s 50G 20s 0 0 1% --damos_nr_filters 1 1 {TWO}"
    ),
    "marks": (
        "damo start --kdamond --damon_ctx --damon_target --numa_node 0 "
        f"--damos_scheme {DOWN} --damos_age 10s max "
        f"--kdamond --damon_ctx --damon_target --numa_node 1 --damos_scheme {UP} "
        "--damos_filter reject none memcg /a.slice"
    ),
    "three tiers in one context": (
        f"damo start --numa_node 1 --damos_action migrate_cold 2 {UP} --damos_apply_interval 500ms "
        "--damos_apply_interval 500ms --damos_quota_interval 2s --damos_quota_interval 2s "
        "--damos_quota_space 1G --damos_quota_space 512M --damos_quota_goal node_mem_free_bp 2% 1 "
        "--damos_quota_goal node_mem_used_bp 99% 0 --damos_nr_quota_goals 1 1 --nr_schemes 2"
    ),
    "odd": (
        f"damo start {UP} --damos_wmarks free_mem_rate 5s 50% 40% 20% --refresh_stat 500 "
        "--damos_filter allow addr 4096 8192 --damos_quota_interval 0 --damos_quota_space 100M "
        "--damos_quota_goal user_input 10000 5000 --damos_quota_goal_tuner temporal "
        "--damos_access_rate 20 50% --damos_sz_region 2M 1G --damos_age 1m 1h"
    ),
}


@cache
def damo_answers() -> dict[str, tuple[str, str]]:
    found = pytest.importorskip("damo")
    asked = [
        [word.text for word in shell_text.read("p", text).commands[0].words[1:]]
        for text in COMMANDS.values()
    ]
    folder = Path(found.__path__[0])
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": str(folder), "HOME": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, map(tuple, json.loads(done.stdout)), strict=True))


def of_file(text: str) -> ForeignPolicy:
    root, problems = yamltext.read("p", text, imported.CHARACTERS_MAX, imported.DEPTH_MAX)
    policy, more = policy_file.policy(root, "p")
    assert not (*problems, *more)
    return policy


def comparable(policy: ForeignPolicy) -> tuple[Context, ...]:
    """Return the contexts without what only one of the two forms can say.

    A file has addresses instead of nodes. It also has values that are not in force, such as a
    weight, and `damo` writes these even if nobody gave them.
    """
    return tuple(
        replace(
            context,
            nodes=(),
            ranges=(),
            schemes=tuple(map(without_void, context.schemes)),
        )
        for context in policy.contexts
    )


def without_void(scheme: Scheme) -> Scheme:
    quota: Quota = replace(scheme.quota, weights=None)
    if quota.tuner is not None and quota.tuner.value == "consist":
        quota = replace(quota, tuner=None)
    marks = scheme.watermarks
    return replace(
        scheme,
        quota=replace(quota, goals=tuple(replace(one, node=None) for one in quota.goals)),
        watermarks=None if marks is None or marks.value == "none" else marks,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_damo_says_what_its_command_says(name: str) -> None:
    policy, problems = damo_command.policy("p", COMMANDS[name])
    assert not problems
    as_json, as_yaml = damo_answers()[name]
    assert of_file(as_json) == of_file(as_yaml)
    assert comparable(of_file(as_json)) == comparable(policy)


@pytest.mark.parametrize("name", COMMANDS)
def test_both_give_the_same_configuration(name: str) -> None:
    by_command = imported.read("p", COMMANDS[name]).config
    by_file = imported.read("p", damo_answers()[name][0]).config
    # Only a command names the nodes that it watches; a file of two tiers often tells them.
    assert [line for line in by_file.splitlines() if "tiers" not in line] == [
        line for line in by_command.splitlines() if "tiers" not in line
    ]
    if "tiers" in by_file:
        assert by_file == by_command


def test_ranges_are_those_that_damo_has_read() -> None:
    (first, second) = of_file(damo_answers()["HMSDK"][0]).contexts
    assert [one.value for one in (*first.ranges, *second.ranges)] == [
        (0, 1 << 30),
        (1 << 30, 2 << 30),
    ]
    assert first.regions != Bounds()
