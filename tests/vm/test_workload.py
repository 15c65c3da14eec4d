"""The workload's commands, in a guest with two nodes. Each is answered by one line."""

import pytest

from tests.contract.guests import workload
from tests.vm import guest
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

PAGES = 1024
BYTES = 4096 * PAGES

# FIRST is sent at once, the rest when the hot pages have been touched for a while.
FIRST = (
    (f"alloc a 0 {BYTES}", f"ok 0:{PAGES}"),
    (f"alloc b 1 {BYTES}", f"ok 1:{PAGES}"),
    (f"alloc only 1 {BYTES} bind", f"ok 1:{PAGES}"),
    (f"alloc cache 1 {BYTES} timed file=/var/tmp/cache", f"ok 1:{PAGES}"),
    ("passes a", "ok 0"),
    ("where b", f"ok 1:{PAGES}"),
    ("where b 4096 8192", "ok 1:2"),
    (f"where b 0 {BYTES} 16", f"ok 1:{PAGES // 16}"),
    (f"alloc a 0 {BYTES}", "error there is a set a"),
    ("alloc c 9 4096", "error set_mempolicy: Invalid argument"),
    ("alloc c 0 0", "error nothing to allocate, or no node 0"),
    ("where b 1 4096", "error not a part of b, in whole pages: 1 +4096"),
    (f"where b 4096 {BYTES}", f"error not a part of b, in whole pages: 4096 +{BYTES}"),
    ("hot a fast", "error not a rate: fast"),
    ("hot a 1 twice", "error what is twice?"),
    ("hot b 1 every=0", "error every= how many pages?"),
    ("track 0", "ok"),
    ("moves 0", "ok 0 0 0"),
    (f"move b 0 {100 * BYTES}", "ok"),
    ("hot cache 0 zipf", "ok"),
    ("hot cache 10 uniform every=4", "ok"),
    ("hits cache 16", f"ok 1:{PAGES // 4 // 16}"),
    (f"alloc store 1 {BYTES}", f"ok 1:{PAGES}"),
    # Without a skew all pages are touched equally often, if the shuffle gives each value one place.
    ("hot store 10 scattered=0 seed=5", "ok"),
    (f"best store {PAGES // 4}", "ok 250000"),
    ("served store", "ok 1:1000000"),
    ("hits store 64", f"ok 1:{PAGES // 64}"),
    ("hot store 10 scattered=steep", "error not a skew: scattered=steep"),
    ("hot store 10 scattered every=2", "error a scattered set has neither every= nor drift="),
    ("served cache", "error what is served?"),
    ("hot nobody", "error no set nobody"),
    ("dance a", "error what is dance?"),
    ("dance", "error dance of what?"),
    ("hot a 100", "ok"),
    ("hot b 0 0 8192", "ok"),
    ("flush 2000", "ok"),
)
THEN = (
    ("where b", f"ok 0:{PAGES}"),
    ("moves 0", f"ok {PAGES} 0 0"),
    ("hits a 64", f"ok 0:{PAGES // 64}"),
    ("cold a", "ok"),
    ("check a", f"ok {PAGES}"),
    ("check b", f"ok {PAGES}"),
    ("check cache", f"ok {PAGES}"),
    ("free cache", "ok"),
    ("free a", "ok"),
    ("where a", "error no set a"),
    ("where only", f"ok 1:{PAGES}"),
)
PASSES = ("passes a", "passes b", "passes only")
LATENCY = ("latency cache", "latency a", "latency only")

SCRIPT = "(cat /job/first; sleep 2; cat /job/then) | /job/workload; echo status $?"


def test_every_line_is_answered_by_one() -> None:
    first, then = (tuple(line for line, _ in said) for said in (FIRST, THEN))
    result = guest.run(
        "6.12",
        machine_model.load("two-tier"),
        [guest.Command(("sh", "-c", f"{SCRIPT}; ls /var/tmp"))],
        {
            "workload": workload().read_bytes(),
            "first": _text(*first),
            "then": _text(*PASSES, *LATENCY, *then),
        },
    ).results[0]
    ready, *answers = result.stdout.splitlines()
    assert ready == "ready"
    assert answers[: len(FIRST)] == [answer for _, answer in FIRST]
    passes = answers[len(FIRST) : len(FIRST) + len(PASSES)]
    hot, part, never = (int(answer.removeprefix("ok ")) for answer in passes)
    assert part > hot > 0 == never, "two pages take fewer turns than all of a set"
    timed = answers[len(FIRST) + len(PASSES) :][: len(LATENCY)]
    faults, requests, none = (
        [int(word) for word in answer.removeprefix("ok ").split()] for answer in timed
    )
    assert none == [0, 0, 0, 0]
    for count, p50_ns, p99_ns, _ in (faults, requests):
        assert count >= PAGES
        assert 0 < p50_ns <= p99_ns
    end = answers[len(FIRST) + len(PASSES) + len(LATENCY) :]
    assert end == [*(answer for _, answer in THEN), "status 0"], "no file is left behind"


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
