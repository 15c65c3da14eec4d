"""What tierd would move."""

from dataclasses import replace

from tests.fixtures.snapshots import FAST, MIB, SLOW, SNAPSHOT, with_nodes
from tierd.record.outlook import Outlook, outlook, sentence
from tierd.record.sensed import cold_used_bytes


def test_what_the_sensor_counts_and_is_not_data_is_left_out() -> None:
    assert cold_used_bytes(1000, 200, 700) == 500
    assert cold_used_bytes(1000, 200, 1100) == 800
    assert cold_used_bytes(1000, 200, 100) == 0


def test_both_ways() -> None:
    found = outlook((SNAPSHOT,))
    # 50 MiB come up. 120 MiB are free and 100 MiB are kept, so 30 MiB have to go down.
    assert found == Outlook(50 * MIB, (1,), 280 * MIB, (0,), 50 * MIB, 30 * MIB)
    assert sentence(found) == (
        "50 MiB hot on the slow tier (node1), 280 MiB cold on the fast tier (node0); "
        "tierd would promote 50 MiB and demote 30 MiB."
    )


def test_without_cold_memory_above_only_what_is_free_is_filled() -> None:
    found = outlook((with_nodes(replace(FAST, cold_bytes=0)),))
    assert found is not None
    assert (found.promote_bytes, found.demote_bytes) == (20 * MIB, 0)


def test_headroom_alone_is_a_reason_to_demote() -> None:
    found = outlook((with_nodes(replace(FAST, free_bytes=0), replace(SLOW, hot_bytes=0)),))
    assert found is not None
    assert (found.promote_bytes, found.demote_bytes) == (0, 100 * MIB)


def test_nothing_to_do_is_said() -> None:
    calm = with_nodes(slow=replace(SLOW, hot_bytes=0))
    assert sentence(outlook((calm,))).endswith("tierd would leave everything where it is.")


def test_noise_is_averaged() -> None:
    looks = tuple(with_nodes(slow=replace(SLOW, hot_bytes=hot * MIB)) for hot in (40, 60))
    found = outlook(looks)
    assert found is not None
    assert found.hot_bytes == 50 * MIB


def test_nothing_sensed_is_no_answer() -> None:
    blind = with_nodes(replace(FAST, cold_bytes=None), replace(SLOW, hot_bytes=None))
    assert outlook((blind, replace(SNAPSHOT, nodes=()))) is None
    assert "not sensed" in sentence(None)
