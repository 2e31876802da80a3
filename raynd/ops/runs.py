"""Runs of integers of different lengths, laid end to end."""
from __future__ import annotations


def runs(xp, start, count):
    """(number, value) of all elements of the runs ``start[i], start[i] + 1, ...`` of ``count[i]`` elements each."""
    number = xp.repeat(xp.arange(count.size), count)
    first = xp.cumsum(count) - count
    return number, xp.arange(number.size) + (start - first)[number]


def chunks_of_runs(xp, count, limit):
    """Bounds (first, last) of parts of the runs, each of at most ``limit`` elements or of one run."""
    ends = xp.cumsum(count)
    first, done = 0, 0
    while first < count.size:
        last = max(int(xp.searchsorted(ends, done + limit, side="right")), first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])
