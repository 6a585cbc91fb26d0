"""Opening hours and times of day of a clause, compared with those of fields."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from ragmonitor.judges.builtin.structured import clock
from ragmonitor.judges.builtin.structured.clauses import Clause
from ragmonitor.judges.builtin.structured.fields import MAX_SHARED, FieldTable
from ragmonitor.judges.builtin.structured.findings import FieldReading, Outcome

_MAX_TEXT: Final = 400
"""Characters of a sentence whose days go for its clauses without days."""


def read_schedules(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Compare what a clause says of opening hours with those of the rows that it may mean."""
    if not table.schedules:
        return
    own, found = clause.own, clause.times
    is_closed, is_open = clock.CLOSED.search(own), clock.SAYS_OPEN.search(own)
    edges = clock.edges(own, found, 0)
    which = clock.days(own)
    asked = which or (clock.days(clause.text) if edges and len(clause.text) <= _MAX_TEXT else [])
    asked = [each for each in asked if each.is_named] or asked  # `weekdays (Tuesday to Friday)`
    if not (is_closed or is_open or (edges and asked)):
        return
    sides = [(found[at], opens) for at, opens in edges.items()]
    schedules = _schedules(clause, table)
    if not schedules:
        return
    results = [_hours(clause, each, asked, sides, is_closed=bool(is_closed)) for each in schedules]
    places: list[clock.Days | clock.Time] = [*which, *found]
    spans = [(clause.start + each.start, clause.start + each.end) for each in places]
    best = max(outcome for outcome, _ in results)
    if best is Outcome.SUPPORTS:
        reading.support(*spans)
    elif best is not Outcome.SILENT:
        label = min(label for outcome, label in results if outcome is best)
        at = spans[0] if spans else (clause.start, clause.end)
        reading.object(at, label, conflicts=best is Outcome.CONTRADICTS)


def _schedules(clause: Clause, table: FieldTable) -> Sequence[clock.Schedule]:
    """Return the opening hours of the rows that a clause names, or all; none if they are many."""
    own = [table.schedules[row] for row in clause.named if row in table.schedules]
    every = list(islice(table.schedules.values(), MAX_SHARED + 1))
    if own or len(every) > MAX_SHARED:
        return own
    within = [s for s in every if not clause.named.isdisjoint(table.owners(s.row))]
    return within or every


def read_times(clause: Clause, reading: FieldReading) -> None:
    """Compare the times of a clause with the one field of a time that it speaks of."""
    found = clause.times
    facts = [fact for mention in clause.mentions for fact in mention.facts if fact.times]
    if not found or len({fact.key for fact in facts}) != 1:
        return
    spans = [(clause.start + time.start, clause.start + time.end) for time in found]
    if any(time.equals(other) for time in found for fact in facts for other in fact.times):
        reading.support(*spans)
    else:
        reading.object(spans[0], min(fact.label for fact in facts))


def _hours(
    clause: Clause,
    schedule: clock.Schedule,
    which: Sequence[clock.Days],
    edges: Sequence[tuple[clock.Time, bool]],
    *,
    is_closed: bool,
) -> tuple[Outcome, str]:
    """Return whether a schedule agrees with a clause, and the field that says so."""
    asked = [day for each in which for day in each.days]
    says_closed = (is_closed and not edges) != clause.is_negated()
    known = [day for day in asked or schedule.hours if schedule.hours.get(day) is not None]
    missing = [day for day in asked if schedule.hours.get(day) is None]
    wrong = [day for day in known if not _agrees(schedule.hours[day] or (), edges, says_closed)]
    if (asked and wrong) or (not asked and known and len(wrong) == len(known) and edges):
        return Outcome.CONTRADICTS, schedule.label(min(wrong))
    if missing:
        return (Outcome.SILENT if says_closed else Outcome.UNKNOWN), schedule.label(min(missing))
    return (Outcome.SUPPORTS if known and (asked or edges) else Outcome.SILENT), ""


def _agrees(
    spans: Sequence[tuple[clock.Time, clock.Time]],
    edges: Sequence[tuple[clock.Time, bool]],
    says_closed: bool,
) -> bool:
    """Return whether a day's hours are what is said of it."""
    if not edges:
        return bool(spans) != says_closed
    return all(
        any(time.equals(span[0] if opens else span[1]) for span in spans) for time, opens in edges
    )
