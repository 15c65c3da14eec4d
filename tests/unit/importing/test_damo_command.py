"""Commands of damo in a text: the words, how options belong together, the place of each error."""

from pathlib import Path

import pytest

from tests.unit.importing.policies import DOWN, UP
from tierd.configuration.configfile import ConfigErrors
from tierd.importing import damo_command, imported, shell_text
from tierd.importing.foreign import ForeignPolicy

POLICIES = Path(__file__).parent / "policies"


def parsed(text: str) -> ForeignPolicy:
    policy, problems = damo_command.policy("p", text)
    assert not problems
    return policy


def errors(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigErrors) as caught:
        imported.read("p", text)
    return caught.value.lines


def words(text: str) -> list[str]:
    (command,) = shell_text.read("p", text).commands
    return [word.text for word in command.words]


@pytest.mark.parametrize(
    "command",
    [
        "damo start paddr",
        "  # ./damo start paddr",
        "$ sudo damo start paddr",
        "sudo /opt/damo/damo start paddr",
        '"$damo_bin" start paddr',
        '"$bindir/../damo" start paddr',
        "${DAMO} start paddr",
        "python3 ./damo.py start paddr",
        "damo start paddr  # and more",
        "damo start paddr; damo stop",
        "damo start paddr | tee log",
        "damo start \\\n    paddr\n",
        "damo start \\\r\n    paddr\r\n",
        "damo start ` # a comment in the middle ` paddr",
        "damo start 'paddr'",
        'damo start "pad"dr',
    ],
)
def test_the_words_of_a_command(command: str) -> None:
    assert words(command) == ["start", "paddr"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "we start damo on Monday",
        "# damo is a tool",
        "see damo/start",
        "damon start",
        "damo report access",
        "echo damo start",
    ],
)
def test_what_is_no_command(text: str) -> None:
    assert not shell_text.has_command(text)


def test_a_word_knows_its_place() -> None:
    (command,) = shell_text.read("p", "Text.\n  $ damo start \\\n    --ops paddr\n").commands
    assert [str(word.place) for word in command.words] == ["p:2:10", "p:3:5", "p:3:11"]


def test_lines_that_are_not_read_are_counted() -> None:
    text = f"set -e\n\n# comment\necho hello\ndamo start {UP}\ndamo stop\n"
    (extra,) = parsed(text).extras
    assert (extra.value, extra.said) == ("unread", "3 lines beside the command")


def test_what_the_cover_letter_says() -> None:
    demoting, promoting = parsed((POLICIES / "cover-letter.txt").read_text()).contexts
    assert [one.value for one in demoting.nodes] == [0]
    assert [one.value for one in promoting.nodes] == [1]
    (scheme,) = demoting.schemes
    assert scheme.quota.size_bytes is not None
    assert scheme.quota.size_bytes.value == 200 << 20
    (goal,) = scheme.quota.goals
    assert goal.node is not None
    assert (goal.metric.value, goal.target.value, goal.node.value) == ("node_mem_free_bp", 50, 0)
    (young,) = promoting.schemes[0].filters
    assert (young.type.value, young.matching, young.allow) == ("young", True, True)
    assert demoting.goal is not None
    assert demoting.goal.sample_us_max.value == 10_000_000


def test_other_commands_beside_it() -> None:
    text = (
        "sudo damo module stat write enabled N\n"
        f"sudo damo start {UP}\n"
        "echo true | sudo tee /sys/kernel/mm/numa/demotion_enabled\n"
    )
    policy = parsed(text)
    assert policy.stops_damon_stat is not None
    assert policy.stops_damon_stat.value
    assert policy.demotes_in_reclaim is not None
    assert policy.demotes_in_reclaim.value
    assert not policy.extras
    off = parsed(f"damo start {UP}\necho 0 > /sys/kernel/mm/numa/demotion_enabled")
    assert off.demotes_in_reclaim is not None
    assert not off.demotes_in_reclaim.value


# Two spellings that mean the same.
SAME = [
    (f"damo start {UP}", f"damo tune {UP}"),
    (f"damo start {UP}", f"damo args damon --format yaml --out x.yaml {UP}"),
    (f"damo start --ops=paddr {UP}", f"damo start paddr {UP}"),
    (
        f"damo start -s 10ms -a 200ms -u 2s {UP}",
        f"damo start --monitoring_intervals 10ms 200ms 2s {UP}",
    ),
    (f"damo start -n 20 -m 500 {UP}", f"damo start --monitoring_nr_regions_range 20 500 {UP}"),
    (
        f"damo start --monitoring_intervals_autotune {UP}",
        f"damo start --monitoring_intervals_goal 4% 3 5ms 10s {UP}",
    ),
    (
        f"damo start {UP} --damos_quotas 0 200MB 1s 1 1 1",
        f"damo start {UP} --damos_quota_interval 1s --damos_quota_space 200MB "
        "--damos_quota_weights 1 1 1",
    ),
    (
        f"damo start {UP} --damos_filter young nomatching",
        f"damo start {UP} --damos_filter reject none young",
    ),
    (
        f"damo start {UP} --damos_filter reject young allow none memcg /a reject anon",
        f"damo start {UP} --damos_filter reject young --damos_filter allow none memcg /a "
        "--damos_filter reject anon",
    ),
    (
        f"damo start {UP} --damos_filter memcg matching /a allow",
        f"damo start {UP} --damos_filter allow memcg /a",
    ),
    (
        f"damo start --numa_node 0 {DOWN} --numa_node 1 {UP} "
        "--damos_filter reject young --damos_filter allow young "
        "--damos_nr_filters 1 1 --nr_targets 1 1 --nr_schemes 1 1 --nr_ctxs 1 1",
        f"damo start --kdamond --damon_ctx --damon_target --numa_node 0 --damos_scheme {DOWN} "
        "--damos_filter reject young "
        f"--kdamond --damon_ctx --damon_target --numa_node 1 --damos_scheme {UP} "
        "--damos_filter allow young",
    ),
    (
        f"damo start {DOWN} --damos_filter reject young --damos_filter allow anon",
        f"damo start --damos_scheme {DOWN} --damos_filter reject young --damos_filter allow anon",
    ),
    (
        f"damo start --damon_ctx --damon_target --numa_node 0 {DOWN} --damos_filter reject young",
        f"damo start --numa_node 0 {DOWN} --damos_filter reject young",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings(one: str, other: str) -> None:
    assert parsed(one) == parsed(other)


def test_a_program_is_watched_by_its_pid() -> None:
    (context,) = parsed("damo start --target_pid 4711 --damos_action stat").contexts
    assert context.operations.value == "vaddr"


def test_regions_are_kept() -> None:
    (context,) = parsed(f'damo start -r "4096-8192 1G-2G" {UP}').contexts
    assert [one.value for one in context.ranges] == [(4096, 8192), (1 << 30, 2 << 30)]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--refresh_stat 1000", "refresh_ms"),
        ("--damon_addr_unit 4096", "addr_unit"),
        ("--pause_ctx 0", "pause"),
        ("--damos_max_nr_snapshots 5", "max_nr_snapshots"),
        ("--damos_quota_fail_charge_ratio 1 4096", "fail_charge_denom"),
        ("--probe_filter allow anon", "probes"),
        ("--exp_ops_cpus 0-3", "sample_control"),
        ("--damos_quota_space 1G", "quota_without_interval"),
    ],
)
def test_what_tierd_has_no_words_for_is_kept_with_its_name(options: str, name: str) -> None:
    assert [one.value for one in parsed(f"damo start {UP} {options}").extras] == [name]


WRONG = [
    ("damo start\ndamo start", "p:2:6: expected one `damo start` command, found 2 (line 1, 2)"),
    ("damo module stat write enabled N", "p:1:1: expected one `damo start` command, found 0"),
    ("damo start --sampel 5ms", "p:1:12: unknown option '--sampel', did you mean --sample?"),
    ("damo start --sample", "p:1:12: --sample: expected a value, found none"),
    ("damo start --sample 5x", "p:1:21: --sample: expected a time such as"),
    (
        "damo start --monitoring_intervals 1s 2s",
        "p:1:12: --monitoring_intervals: expected 3 values",
    ),
    ("damo start --ops taddr", "p:1:18: --ops: expected one of paddr, vaddr, fvaddr"),
    ("damo start 4711", "p:1:12: expected an option, found '4711'"),
    ("damo start hmsdk.yaml", "p:1:12: the policy is in another file: tierd import 'hmsdk.yaml'"),
    ("damo start --schemes x.json", "p:1:12: --schemes has a policy of its own"),
    ("damo start --regions 8-4", "p:1:22: --regions: expected START-END, found '8-4'"),
    ("damo start --numa_node x", "p:1:24: --numa_node: expected the id of a node"),
    ("damo start --damos_action move", "p:1:27: --damos_action: expected one of migrate_hot"),
    ("damo start --damos_action migrate_hot", "p:1:27: migrate_hot needs the node"),
    ("damo start --damos_action pageout 1", "p:1:35: pageout takes no further value"),
    (f"damo start {UP} --damos_age 1 soon", "p:1:55: --damos_age: expected a time such as"),
    (
        f"damo start {UP} --damos_quotas 1 --damos_quota_interval 1s",
        "p:1:58: give either --damos_quotas or --damos_quota_interval",
    ),
    (
        f"damo start {UP} --damos_quota_goal node_mem_used_bp 99% 0",
        "p:1:41: a goal needs a quota with an interval",
    ),
    (
        f"damo start {UP} --damos_quota_interval 1s --damos_quota_goal node_mem_used_bp 99%",
        "p:1:86: --damos_quota_goal: node_mem_used_bp needs the id of a node",
    ),
    (
        f"damo start {UP} --damos_quota_interval 1s --damos_quota_goal used 99% 0",
        "p:1:86: --damos_quota_goal: expected one of user_input",
    ),
    (
        f"damo start {UP} --damos_quota_goal_tuner fast",
        "p:1:66: --damos_quota_goal_tuner: expected consist or temporal",
    ),
    (f"damo start {UP} --damos_filter old", "p:1:41: --damos_filter: expected allow or reject"),
    (
        f"damo start {UP} --damos_filter reject young anon",
        "p:1:41: --damos_filter: expected allow or reject, found 'anon'",
    ),
    (f"damo start {UP} --damos_filter reject", "p:1:41: --damos_filter: expected one of anon"),
    (f"damo start {UP} --damos_filter allow", "p:1:41: --damos_filter: expected one of anon"),
    (f"damo start {UP} --damos_filter young x", "p:1:41: --damos_filter: expected allow or reject"),
    (f"damo start {UP} --damos_filter reject old", "p:1:41: --damos_filter: expected one of anon"),
    (f"damo start {UP} --damos_filter allow memcg", "p:1:41: --damos_filter: memcg needs a value"),
    (f"damo start {UP} --damos_wmarks x 1s 1 1 1", "p:1:56: --damos_wmarks: expected none or"),
    (f"damo start {UP} {DOWN} --damos_filter allow young", "p:1:6: --damos_nr_filters is needed"),
    (
        f"damo start {UP} --damos_filter allow young --damos_nr_filters 2",
        "p:1:6: --damos_nr_filters: expected a sum of 1, in at most 1 numbers, found 2",
    ),
    ("damo start --ops paddr --ops paddr", "p:1:6: --nr_targets is needed: 2 belong to 2 parts"),
    (f"damo start {UP} --nr_ctxs 2", "p:1:6: --nr_ctxs: expected a sum of 1"),
    (f"damo start {UP} --nr_schemes one", "p:1:54: --nr_schemes: expected a number"),
    (f"damo start {UP} --nr_schemes 9999", "p:1:54: --nr_schemes: expected at most 1024"),
    (f"damo start --damon_ctx {UP}", "p:1:6: --damon_target is needed after each --damon_ctx"),
    (
        f"damo start --damos_filter allow young --damos_scheme {UP}",
        "p:1:12: --damos_filter: expected the mark --damos_scheme somewhere before it",
    ),
    ("damo start --ops $OPS", "p:1:18: shell variables and commands are not expanded"),
    ('damo start --ops "$OPS"', "p:1:18: shell variables and commands are not expanded"),
    ("damo start --ops `echo paddr`", "p:1:18: shell variables and commands are not expanded"),
    ("damo start --ops 'paddr", "p:1:18: a quote ' is never closed"),
    ("damo start paddr\n   --sample 5ms", "p:2:1: a line begins with an option"),
    ("damo start paddr \\ \n --sample 5ms", "p:2:1: a line begins with an option"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_the_place_of_an_error(text: str, told: str) -> None:
    found = errors(text)
    assert any(line.startswith(told) for line in found), found


def test_a_text_with_a_command_is_not_endless() -> None:
    text = f"damo start {UP}\n" + "#" * shell_text.CHARACTERS_MAX
    assert errors(text) == ("p:1:1: is too large: expected at most 64 KiB of text with a command",)
