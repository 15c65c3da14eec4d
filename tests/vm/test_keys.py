"""The driver of key-value servers, with Debian's servers, in a guest with slow memory."""

import pytest

from bench import driven, program
from tests.vm import built, guest, rootfs
from tests.vm.slow import Slowness
from tierd.sim import machine_model

KEYS = 2000
SECONDS = 3

# Starts a server, and then the driver when the server's socket is there.
SERVED = 'server=$1; shift; $server & for i in $(seq 300); do [ -S "$SOCKET" ] && break; ' \
    "sleep 0.1; done; \"$@\"; said=$?; kill $!; exit $said"  # fmt: skip


def served(chosen: program.Program, keys: int = KEYS) -> guest.Command:
    words = ("env", f"SOCKET={program.SOCKET}", "sh", "-c", f"rm -f {program.SOCKET}; {SERVED}")
    server = " ".join(word or "''" for word in chosen.argv)
    driver = chosen.driven("/job/keys", keys, SECONDS)
    return guest.Command((*words, "sh", f"eval exec {server} >/dev/null", *driver), timeout_s=300)


@pytest.mark.vm
@pytest.mark.rare
@pytest.mark.timeout(1800)
def test_servers_are_filled_and_read() -> None:
    verdict = guest.run(
        "7.2",
        machine_model.load("two-tier"),
        [served(one) for one in program.PROGRAMS],
        {"keys": built.program("keys", ("-lm",)).read_bytes()},
        suite=rootfs.NEWER_SUITE,
        slow=Slowness(),
        programs=program.PACKAGES,
    )
    for result in verdict.results:
        assert (result.status, result.stderr) == (0, "")
        told = driven.parse(result.stdout)["served"]
        assert len(told["operations"]) == SECONDS
        assert min(told["operations"]) > 0
        assert all(p50 <= p99 for p50, p99 in zip(told["p50_us"], told["p99_us"], strict=True))
    # Each driver makes a mark when it begins, and one for each of its seconds.
    lines = [mark.line for mark in verdict.marks]
    assert lines == [*range(SECONDS + 1)] * len(program.PROGRAMS)
    # The counters only grow.
    sums = [sum(mark.misses) for mark in verdict.marks]
    assert sums == sorted(set(sums))
