"""What promotion by page does now, in words. Pure."""

from tierd.plans.plan import Sweep
from tierd.tuner.climb import Climb, Stage
from tierd.tuner.gate import Room
from tierd.units import format_duration_us


def reason(now: Climb, sweep: Sweep, room: Room) -> str:
    """Return what a climb does now, in words."""
    lag_s = now.lag_between_s(sweep.window_us / 1e6, sweep.first_lag_us / 1e6)
    touched = f"what is touched within {format_duration_us(round(lag_s * 1e6))}"
    match now.stage:
        case Stage.rests if room.stopped:
            return f"closed: {room.stopped}"
        case Stage.rests if now.stage_s < now.stage_ends_s:
            left_s = now.stage_ends_s - now.stage_s
            return f"closed for {left_s:.0f} s: the last round did not cool node {sweep.node}"
        case Stage.rests if now.may_begin(room):
            return "waits: the next round begins at the next reading"
        case Stage.rests:
            return f"waits: no room on node {room.node} for {touched}"
        case Stage.waits | Stage.holds:
            why = room.stopped or f"no room on node {room.node}"
            return f"waits in the middle of a round: {why}"
        case Stage.goes_round:
            done = min(1.0, now.touches.visited_bytes / sweep.round_bytes)
            share = f"{now.yield_share:.1%} of those visited lately"
            return (
                f"uses room that is free, {done:.0%} of the round: what was touched since the last "
                f"round goes up, {share}"
            )
        case _:
            done = min(1.0, now.cleared_bytes / sweep.round_bytes)
            share = f"{now.yield_share:.1%} of those visited lately"
            why = "uses the room that is left" if now.fills else "visits pages"
            return f"{why}, {done:.0%} of the round: {touched} goes up, {share}"
