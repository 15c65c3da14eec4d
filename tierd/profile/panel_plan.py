"""The plan of `tierd record`: one kdamond that watches a panel, and moves nothing. Pure."""

from tierd.configuration.config import Config, Mode
from tierd.errors import Unsupported
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import (
    UINT_MAX,
    ULONG_MAX,
    AccessPattern,
    Action,
    Context,
    Intervals,
    Kdamond,
    Operations,
    Quota,
    Scheme,
    Span,
    writes,
)
from tierd.plans.knobs import knobs
from tierd.plans.plan import Controller, Plan, TunerChoice, Watch
from tierd.plans.safety import require_safe
from tierd.profile.panel import Panel
from tierd.profile.rates import AGGR_US, CLOSE_AGGR_US, CLOSE_SAMPLE_US, SAMPLE_US
from tierd.topology import Topology

# How often the scheme looks at the counts. A command that reads them waits for it.
APPLY_US = 1_000_000

# The least number of regions that DAMON accepts.
NR_REGIONS_MIN = 10

EVERYTHING = AccessPattern(Span(0, ULONG_MAX), Span(0, UINT_MAX), Span(0, UINT_MAX))


MINUTE = Intervals(SAMPLE_US, AGGR_US, AGGR_US, None)
CLOSE = Intervals(CLOSE_SAMPLE_US, CLOSE_AGGR_US, CLOSE_AGGR_US, None)


def panel_plan(
    topology: Topology, capabilities: Capabilities, panel: Panel, intervals: Intervals = MINUTE
) -> Plan:
    """Return the plan that watches the pages of a panel."""
    for needed in (Feature.sysfs, Feature.paddr):
        if not capabilities.has(needed) and needed not in capabilities.unknown:
            raise Unsupported(
                f"this kernel's DAMON has no {needed}",
                "`tierd record` needs a kernel built with CONFIG_DAMON_SYSFS and "
                "CONFIG_DAMON_PADDR, 6.11 or later",
            )
    first = topology.nodes[0].id
    count = len(panel.pages)
    scheme = Scheme(
        action=Action.stat,
        # It moves nothing, but no kernel is given a number that is not a node's.
        target_nid=first,
        pattern=EVERYTHING,
        apply_interval_us=APPLY_US,
        quota=Quota(bytes_max=0),
    )
    context = Context(
        operations=Operations.paddr,
        intervals=intervals,
        # A page is a region already, so DAMON has nothing to split.
        nr_regions=Span(NR_REGIONS_MIN, max(2 * count, NR_REGIONS_MIN)),
        ranges=panel.ranges,
        schemes=(scheme,),
    )
    kdamonds = (Kdamond(context),)
    require_safe(kdamonds, frozenset(node.id for node in topology.nodes), capabilities)
    return Plan(
        mode=Mode.observe,
        tuner=TunerChoice(Controller.kernel, "nothing is moved"),
        kdamonds=kdamonds,
        watches=(Watch("panel", 0, first, f"{count} single pages stand for all memory"),),
        migrations=(),
        sensors=(),
        sweeps=(),
        knobs=knobs(Config(mode=Mode.observe), topology, None),
        writes=writes(kdamonds, capabilities),
        nodes=tuple(node.id for node in topology.nodes),
        page_bytes=topology.page_bytes,
    )
