"""The check of the processors: whether programs wait for them while kdamonds do not stand back."""

import re

from tierd.doctor.facts import Facts
from tierd.doctor.findings import Check, Outcome, needed, ok, skip, warn
from tierd.kdamonds.niceness import NICENESS
from tierd.kdamonds.ownership import Standing

# If tasks waited for a processor for a tenth of the last five minutes, it was not a moment.
WAITED_PERCENT_MIN = 10.0

_AVERAGE = re.compile(r"^some .*\bavg300=([0-9]{1,3}\.[0-9]{2})\b", re.MULTILINE)


def _processors(facts: Facts) -> Outcome:
    found = needed(facts.kdamonds)
    if found.standing is not Standing.ours:
        return ok("no kdamond of tierd's runs now")
    text = needed(facts.cpu_pressure)
    average = None if text is None else _AVERAGE.search(text)
    if average is None:
        return skip("this kernel does not say how long programs wait for processors (PSI)")
    waited = f"programs waited for a processor for {float(average[1]):.0f} % of five minutes"
    known = [one for one in needed(facts.niceness) if one is not None]
    if not known:
        return skip(f"{waited}; the kernel's threads are not seen from here, as in a container")
    least = min(known)
    if least >= NICENESS or float(average[1]) < WAITED_PERCENT_MIN:
        return ok(f"{waited}; kdamonds have a niceness of {least}")
    return warn(
        f"{waited}, and kdamonds have a niceness of {least}: they take processors from programs",
        "put systemd/examples/programs-first.conf into /etc/systemd/system/tierd.service.d/, then "
        "`systemctl daemon-reload && systemctl restart tierd`",
    )


CHECKS = (
    Check(
        "TD023",
        "processors",
        "Do kdamonds stand back where programs want all processors?",
        "A kdamond is a thread of the kernel and has the weight of any program. Where programs "
        "want all processors, they wait for its samples. A niceness of 10 leaves it a tenth of "
        "what a program gets. The kernel lets only CAP_SYS_NICE change a kernel thread. The "
        "service has no capability, so this is left to a drop-in (systemd/examples/"
        "programs-first.conf). `tierd run` as root does it by itself.",
        _processors,
    ),
)
