"""Real kernels: each series boots, and has the nodes and tiers of its machine."""

import json

import pytest

from tests.vm import guest, kernels
from tests.vm.errors import LostGuest, Panicked
from tests.vm.guest import Command
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel

pytestmark = pytest.mark.vm

LOOK = Command(("python3", "-B", "-m", "tests.vm.shape"))

# The oldest and a new series boot on each machine, the others on the one that most tests use.
BOOTS = [
    *((series, "two-tier") for series in kernels.SERIES),
    *(
        (series, name)
        for series in ("6.12", "7.2")
        for name in machine_model.names()
        if name != "two-tier"
    ),
]

# The share of a node that the kernel may use for itself, such as for its image and page tables. It
# is 10 % of a node of 512 MiB.
KEPT_SHARE_MAX = 0.2


@pytest.mark.parametrize(("series", "name"), BOOTS)
def test_a_kernel_sees_the_machine_that_was_asked_for(series: str, name: str) -> None:
    asked = machine_model.load(name)
    verdict = guest.run(series, asked, [LOOK])
    assert verdict.release.startswith(f"{series}.")
    (looked,) = verdict.results
    assert (looked.status, looked.stderr) == (0, "")
    seen = json.loads(looked.stdout)
    assert seen["tiers"] == {tier: list(nodes) for tier, nodes in asked.tiers}
    shown = {int(node.removeprefix("node")): what for node, what in seen["nodes"].items()}
    assert {
        node: (what["cpus"], what["distances"], what["figures"]) for node, what in shown.items()
    } == {
        node.id: (list(node.cpus), list(asked.distances[node.id]), figures(asked, node.id))
        for node in asked.nodes
    }
    for node in asked.nodes:
        assert (1 - KEPT_SHARE_MAX) * node.size_mib <= shown[node.id]["total_mib"] <= node.size_mib


def figures(asked: MachineModel, node: int) -> list[int]:
    """Return the read latency and bandwidth of a node; nothing if the machine has no HMAT."""
    chosen = asked.nodes[node]
    return [value for value in (chosen.latency_ns, chosen.bandwidth_mbps) if value is not None]


def test_commands_run_one_by_one_and_each_says_how_it_went() -> None:
    verdict = guest.run(
        "6.12",
        machine_model.load("two-tier"),
        [
            Command(("sh", "-c", "echo out; echo err >&2; exit 3")),
            Command(("sh", "-c", "kill -9 $$")),
            Command(("sleep", "600"), timeout_s=2),
            Command(("no-such-program",)),
            Command(
                (
                    "sh",
                    "-c",
                    "cat /job/given | tee $TIERD_VM_OUT/copy; mkdir $TIERD_VM_OUT/d; "
                    "head -c 100000 /dev/zero > $TIERD_VM_OUT/d/zeroes",
                )
            ),
            Command(
                ("python3", "-c", "import tierd, yaml, psutil, prometheus_client; print('all')")
            ),
        ],
        files={"given": b"\x00\xff bytes"},
    )
    spoke, killed, endless, unknown, gave, imported = verdict.results
    assert (spoke.status, spoke.stdout, spoke.stderr) == (3, "out\n", "err\n")
    assert killed.status == -9
    assert endless.status is None
    assert unknown.status == 127
    assert "no-such-program" in unknown.stderr
    assert (gave.status, gave.stderr) == (0, "")
    assert (imported.status, imported.stdout) == (0, "all\n")
    assert verdict.files == {"copy": b"\x00\xff bytes", "d/zeroes": bytes(100000)}


def test_a_kernel_that_panics_is_a_result_and_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(Panicked, match=r"(?s)panicked:\n.*Kernel panic - not syncing"):
        guest.run(
            "6.12", machine_model.load("two-tier"), [LOOK], append="rdinit=/none root=/dev/none"
        )
    assert not caplog.records


@pytest.mark.usefixtures("losses_expected")
def test_a_guest_that_goes_without_a_word_is_tried_once_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = Command(("sh", "-c", "echo o > /proc/sysrq-trigger; sleep 600"))
    with pytest.raises(LostGuest, match="lost 2 times"):
        guest.run("6.12", machine_model.load("two-tier"), [gone])
    told = [record.getMessage() for record in caplog.records]
    assert [message.partition(":")[0] for message in told] == [
        "6.12 on two-tier, try 1 of 2",
        "6.12 on two-tier, try 2 of 2",
    ]
