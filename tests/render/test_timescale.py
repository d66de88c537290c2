"""The time axis: one scale between breaks, nothing lost, labels that can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fsm.render.timeline.scale import BREAK, WIDTH, scale

HOUR = 3_600_000


def test_a_busy_minute_is_linear() -> None:
    """Where things happen all the time, there is no break and equal times are equally long."""
    axis = scale(range(0, 60_000, 1000), 0, 60_000)
    assert [piece.quiet for piece in axis.pieces] == [False]
    assert [axis.x(ts) for ts in (0, 15_000, 30_000, 60_000)] == [0, WIDTH / 4, WIDTH / 2, WIDTH]


def test_hours_of_quiet_become_a_break() -> None:
    """Two bursts three hours apart are drawn to one scale, with a break of fixed width between them."""
    axis = scale([1000, 2000, 3 * HOUR - 2000], 0, 3 * HOUR)
    assert [piece.quiet for piece in axis.pieces] == [False, True, False]
    assert axis.pieces[1].right - axis.pieces[1].left == BREAK
    assert axis.x(2000) - axis.x(0) == pytest.approx(axis.x(3 * HOUR) - axis.x(3 * HOUR - 2000))
    assert axis.x(2000) - axis.x(0) > 100


def test_a_quiet_stretch_that_saves_little_is_not_cut_out() -> None:
    """Fifteen quiet seconds of sixty stay as long as they were."""
    axis = scale([*range(0, 30_000, 500), *range(45_000, 60_000, 500)], 0, 60_000)
    assert len(axis.pieces) == 1


def test_there_are_never_more_than_ten_breaks() -> None:
    """A burst a minute for five hours has no breaks: they would be all one sees."""
    axis = scale(range(0, 5 * HOUR, 60_000), 0, 5 * HOUR)
    assert sum(piece.quiet for piece in axis.pieces) == 0


def test_pixels_grow_with_time_and_end_at_the_edges() -> None:
    """Later is never further left; what lies outside stands at the nearer end."""
    axis = scale([1000, 2000, HOUR, HOUR + 50], 0, 3 * HOUR)
    places = [axis.x(ts) for ts in range(0, 3 * HOUR, 777)]
    assert places == sorted(places)
    assert (axis.x(-5), axis.x(4 * HOUR)) == (0, axis.width)


@pytest.mark.parametrize("end", [1, 37, 5000, 61_000, HOUR, 90 * HOUR, 10**13, 1 << 62])
def test_labels_never_touch(end: int) -> None:
    """From a millisecond to eternity, ticks are round, at least 70 pixels apart and clear of both ends."""
    axis = scale(range(0, end, end // 400 + 1), 0, end)
    ticks = list(axis.ticks())
    places = [tick.x for tick in ticks]
    assert len(ticks) <= 16
    assert all(b - a >= 70 for a, b in pairwise(places))
    assert all(36 <= x <= axis.width - 36 for x in places)
    assert ticks or end == 1


def test_ticks_stand_at_round_times() -> None:
    """A minute has a tick every ten seconds, without milliseconds; a second every hundred, with them."""
    assert [tick.ts_ms for tick in scale(range(0, 60_000, 500), 0, 60_000).ticks()] == [
        10_000,
        20_000,
        30_000,
        40_000,
        50_000,
    ]
    assert [tick.exact for tick in scale(range(0, 60_000, 500), 0, 60_000).ticks()] == [False] * 5
    assert [(tick.ts_ms, tick.exact) for tick in scale([], 0, 1000).ticks()][:2] == [(100, True), (200, True)]


def test_many_instants_make_a_wider_axis() -> None:
    """Six hundred instants get twice the room, ten thousand four times; who asks for a width gets it."""
    assert scale(range(600), 0, 600).width == 2 * WIDTH
    assert scale(range(10_000), 0, 10_000).width == 4 * WIDTH
    assert scale(range(600), 0, 600, 500).width == 500


def test_an_end_before_the_beginning_is_an_instant() -> None:
    """Hostile times give an axis all the same."""
    axis = scale([5, 3], 10, 4)
    assert (axis.start_ms, axis.end_ms) == (10, 11)
