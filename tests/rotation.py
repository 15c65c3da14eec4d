"""Choose the rare tests of a run. They take turns, so a few runs make all of them. Pure.

Tests of one guest, or of the browser, stay together. A turn has a bound on its expected seconds.
"""

from collections.abc import Iterable, Sequence

# Seconds of a test on two processors, by its function, or by its file if all are in one turn. For
# `test_real` it is all of a guest.
EXPECTED_S = {
    "test_real": 150,
    "test_it_moves_hot_up_and_cold_down_and_leaves_no_trace": 180,
    "test_memory_goes_to_the_other_socket_where_a_node_is_full": 150,
    "test_so_do_the_kernels_own_goals": 240,
    "test_nothing_is_promoted_while_tasks_wait_for_memory": 120,
    "test_the_unit_lives_through_all_that_systemd_does": 260,
    "test_demand_has_the_hot_set_up_in_time": 60,
    "test_demand_brings_hot_sets_up_where_native_goals_stand_still": 210,
    "test_what_is_ahead_on_a_real_kernel_is_ahead_on_the_simulated_one": 30,
    "test_a_world_of_hours": 40,
    "test_a_panel_finds_how_much_is_hot_and_how_hot": 180,
    "test_regions_say_how_much_is_hot_less_exactly": 220,
    "test_the_pod_does_the_whole_job_and_stops_clean": 240,
    "test_programs_are_filled_and_asked": 240,
    "test_it_weighs_no_more_than_the_bar": 40,
    "test_damo_starts_a_plan_as_tierd_would": 150,
    "test_a_policy_ends_in_the_files_that_damo_start_gives_it": 240,
    "test_every_look_answers_and_changes_nothing": 130,
    "test_promotion_stops_where_the_fast_node_answers_no_sooner": 360,
    "test_a_hot_set_comes_up_although_page_cache_fills_the_slow_node": 150,
    "test_an_idle_machine_shows_no_difference": 200,
    "test_protected.py": 150,
    "test_shared.py": 300,
    "test_swapped.py": 240,
    "test_the_latencies_are_those_of_the_memory": 90,
    "test_an_arm64_kernel_does_the_same": 240,
    "test_a_cxl_device_becomes_a_tier": 240,
    "test_the_share_is_as_the_page_says": 60,
    "test_its_own_tests_pass_where_nothing_else_is_installed": 90,
    # Half of it is to install Chromium.
    "test_browser.py": 120,
    "test_many_readers_neither_slow_the_loop_nor_make_it_grow": 60,
    "test_restore_after_a_kill_at_each_operation": 1,
    "test_start_after_a_kill_at_each_operation": 1,
    "test_after_each_fault_the_plan_runs_or_the_error_names_the_files": 1,
}

# A test without a figure counts as the longest.
UNKNOWN_S = max(EXPECTED_S.values())

# Seconds of a turn. With the usual tests (35 minutes) and the bare machine (10 minutes) a run is
# shorter than an hour.
TURN_S_MAX = 360

# Its tests share one guest per series.
_TOGETHER = "test_real"

# The tests of such a file share one guest per series.
_ONE_GUEST = ("test_protected.py", "test_shared.py", "test_swapped.py")

# The tests of such a file share a browser that has to be installed.
_ONE_BROWSER = "test_browser.py"


def group(nodeid: str) -> str:
    """Return the group of a test: all tests of one guest or file, or the test alone."""
    file = nodeid.partition("::")[0]
    if file.rpartition("/")[2] in _ONE_GUEST:
        _, bracket, parameters = nodeid.partition("[")
        return f"{file}{bracket}{parameters}"
    if file.rpartition("/")[2] == _ONE_BROWSER:
        return file
    if _function(nodeid) != _TOGETHER:
        return nodeid
    function, _, parameters = nodeid.partition("[")
    return f"{function}[{parameters.partition('-')[0]}"


def turns(groups: Iterable[str], turn_s_max: int = TURN_S_MAX) -> tuple[tuple[str, ...], ...]:
    """Return the groups in few turns. The order of the groups does not matter.

    The longest group comes first. Each goes into the first turn that has room for it. A group that
    is longer than the bound has its own turn.
    """
    dealt: list[tuple[int, list[str]]] = []
    for name in sorted(set(groups), key=lambda name: (-expected_s(name), name)):
        cost = expected_s(name)
        at = next((i for i, (taken, _) in enumerate(dealt) if taken + cost <= turn_s_max), None)
        if at is None:
            dealt.append((cost, [name]))
        else:
            taken, names = dealt[at]
            dealt[at] = (taken + cost, [*names, name])
    return tuple(tuple(sorted(names)) for _, names in dealt)


def expected_s(name: str) -> int:
    """Return how long a group takes."""
    return EXPECTED_S.get(_function(name), UNKNOWN_S)


def told(chosen: Sequence[str], number: int, count: int) -> list[str]:
    """Return the summary of a turn: its number, its tests, and how to repeat it."""
    functions: dict[str, int] = {}
    for name in chosen:
        functions[_function(name)] = functions.get(_function(name), 0) + 1
    return [
        f"rare tests, turn {number} of {count}; the same again: make test TURN={number}",
        *(f"  {function}: {times}" for function, times in sorted(functions.items())),
    ]


def following(made: int | None, commit: str | None, count: int) -> int:
    """Return the number of the next turn, from 1 up.

    On a new machine the commit decides. A machine that keeps nothing would otherwise always make
    the first turn.
    """
    if made is not None:
        return made % count + 1
    return int(commit[:8], 16) % count + 1 if commit else 1


def _function(name: str) -> str:
    return name.rpartition("::")[2].rpartition("/")[2].partition("[")[0]
