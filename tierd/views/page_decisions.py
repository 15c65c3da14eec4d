"""The part of the page that says why: the decisions of each scheme, and the events."""

from collections.abc import Mapping, Sequence
from typing import Any

from tierd.record.snapshot import Snapshot
from tierd.units import format_rate
from tierd.views import whyview
from tierd.views.markup import coded, escaped
from tierd.views.render import day, moment

# More events than this are in `tierd events`.
EVENTS_SHOWN = 12

SUBTITLE = {"promote": "to faster memory", "demote": "to slower memory", "evict": "out to storage"}


def decisions(recent: Sequence[Snapshot], status: Mapping[str, Any]) -> str:
    """Return a card for each scheme: what it does, the last reasons, and its figures."""
    looks = [
        {
            "at": one.at,
            "state": one.state,
            "schemes": [
                {
                    "scheme": scheme.scheme,
                    "reason": scheme.reason,
                    "applied_bytes_per_s": scheme.applied_bytes_per_s,
                }
                for scheme in one.schemes
            ],
        }
        for one in recent
    ]
    if not status["schemes"]:
        return '<p class="none">No scheme runs.</p>'
    cards = "".join(_scheme(looks, status["state"], one) for one in status["schemes"])
    return f'<div class="cards">{cards}</div>'


def _scheme(looks: Sequence[whyview.Look], state: str, scheme: Mapping[str, Any]) -> str:
    action = str(scheme["action"])
    by = ", by page" if whyview.goes_by_page(scheme) else ""
    said = whyview.sentence(state, scheme)
    turns = "".join(map(_turn, reversed(whyview.turns(looks, scheme["scheme"]))))
    figures = "".join(f"<li>{escaped(one)}</li>" for one in whyview.figures(scheme))
    return (
        f'<article class="card"><h3><span class="key {escaped(action)}">'
        f"{whyview.path(scheme, '', '&rarr;')}</span>"
        f"<small>{SUBTITLE.get(action, '')}{by}</small>"
        f"<b>{escaped(format_rate(scheme['applied_bytes_per_s']))}</b></h3>"
        f"<p>{coded(said[:1].upper() + said[1:])}</p>"
        f'<ol class="log">{turns}</ol><ul class="small">{figures}</ul></article>'
    )


def _turn(turn: whyview.Turn) -> str:
    moved = turn.moved_bytes_per_s
    tail = f'<span class="moved">{escaped(format_rate(moved))}</span>' if moved else ""
    long = whyview.lasted(turn) if turn.lasted_s > 0 else ""
    return (
        f'<li><time>{moment(turn.at)}</time><span class="long">{escaped(long)}</span>'
        f'<span class="why">{coded(turn.reason)}</span>{tail}</li>'
    )


def events(seen: Sequence[Mapping[str, Any]], now: float) -> str:
    """Return the last events, the newest first."""
    if not seen:
        return '<p class="none">Nothing has happened yet.</p>'
    rows = "".join(
        f'<li><time datetime="{day(one["at"])}T{moment(one["at"])}">{_when(one["at"], now)}</time>'
        f'<span class="long">{escaped(one["event"])}</span>'
        f'<span class="why">{coded(" ".join(one["text"].split()))}</span></li>'
        for one in reversed(seen[-EVENTS_SHOWN:])
    )
    return f'<ol class="log">{rows}</ol>'


def _when(at: float, now: float) -> str:
    """Return the time of day, and the day where it is not today, without the year."""
    if day(at) == day(now):
        return moment(at)
    return f"{day(at)[5:]} {moment(at)[:5]}Z"
