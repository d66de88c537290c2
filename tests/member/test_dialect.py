"""Dialects of the consumer member: what each has, and the tables they mean."""

from __future__ import annotations

import pickle

import pytest

from fsm.errors import InputError
from fsm.member.dialect.choices import Choice
from fsm.member.dialect.dialect import AMENDMENTS, DIALECTS, choices_of, custom, dialect
from fsm.protocol.releases import LATEST, RELEASES
from fsm.tables.consumer_member import TABLE, Event, State


def test_release_without_a_patch_is_its_latest() -> None:
    """`4.2` means 4.2.1, and the same dialect is one object."""
    assert dialect("4.2") is dialect("4.2.1")
    assert dialect() is dialect(RELEASES[-1])


@pytest.mark.parametrize("name", ["3.9", "", "4"])
def test_unknown_dialect_is_refused_with_those_there_are(name: str) -> None:
    """The error names the dialects."""
    with pytest.raises(InputError, match=rf"unknown dialect '{name}'; one of 4\.0\.0, .*4\.4\.0, .*fixed, document"):
        dialect(name)


@pytest.mark.parametrize(
    ("release", "count"),
    [("4.0.2", 1), ("4.1.0", 5), ("4.2.0", 8), ("4.2.1", 10), ("4.3.0", 14), ("4.3.1", 15), ("4.4.0", 17)],
)
def test_choices_of_a_release(release: str, count: int) -> None:
    """A release has every choice up to it: none is taken back by a later one."""
    assert len(choices_of(release)) == count
    earlier = RELEASES[: RELEASES.index(release)]
    assert all(choices_of(r) <= choices_of(release) for r in earlier)


def test_fixed_is_the_latest_release_mended() -> None:
    """`fixed` is the latest release with seventeen choices of its own, less the one that is a hazard alone."""
    mended = choices_of("fixed") - choices_of(LATEST)
    assert len(mended) == 17
    assert all(c.since == "fixed" and c.about for c in mended)
    assert choices_of(LATEST) - choices_of("fixed") == {Choice.UNHEARD_AT_ONCE}


def test_document_is_what_the_notes_decide_otherwise() -> None:
    """`document` has six rules of the notes, and no poll timer: they know none."""
    noted = choices_of("document") - choices_of("fixed")
    assert {c.name for c in noted} == {
        "JOIN_ON_SUBSCRIBE",
        "STABLE_WHEN_SENT",
        "HEARTBEAT_ON_CHANGE",
        "SUBSCRIBE_ENDS_FATAL",
        "CANCEL_RUN",
        "COMMIT_ON_UNSUBSCRIBE",
    }
    assert choices_of("fixed") - choices_of("document") == {Choice.POLL_TIMER}


def test_every_choice_says_what_it_is() -> None:
    """A choice has its meaning and the dialect that brought it; one that is given up is given up later."""
    for choice in Choice:
        assert choice.meaning
        assert choice.since in DIALECTS
        assert not choice.until or DIALECTS.index(choice.since) < DIALECTS.index(choice.until)


def test_tables_of_dialects() -> None:
    """Releases share the table, but for the row that 4.0 had otherwise; the others amend theirs."""
    assert dialect("4.1.0").table is dialect("4.4.0").table is TABLE
    assert (
        TABLE.compiled[State.UNSUBSCRIBED, Event.ERR_FATAL]
        != dialect("4.0.0").table.compiled[State.UNSUBSCRIBED, Event.ERR_FATAL]
    )
    fixed, document = dialect("fixed").table.compiled, dialect("document").table.compiled
    assert TABLE.compiled[State.STALE, Event.UNSUBSCRIBE].target is State.STALE
    assert fixed[State.STALE, Event.UNSUBSCRIBE].target is State.UNSUBSCRIBED
    assert fixed[State.FATAL, Event.SUBSCRIBE].target is State.FATAL
    assert document[State.FATAL, Event.SUBSCRIBE].target is State.UNSUBSCRIBED
    assert document[State.JOINING, Event.HB_SENT].target is State.STABLE


@pytest.mark.parametrize("choice", AMENDMENTS, ids=lambda choice: choice.name)
def test_amendment_stands_alone(choice: Choice) -> None:
    """Each amendment by itself gives a sound table that differs from the one before."""
    plain = choices_of("4.4.0")
    with_it, without_it = custom("with", plain | {choice}), custom("without", plain - {choice})
    assert with_it.table != without_it.table
    named = {line.clause for line in with_it.table.rows} | {line.clause for line in without_it.table.rows}
    assert set(AMENDMENTS[choice].rows) <= named


def test_a_name_may_add_and_remove_rules() -> None:
    """Every command takes such a name."""
    named = dialect("4.4+RAISED_IS_CALLED-RACK")
    assert named is custom("4.4.0+RAISED_IS_CALLED-RACK", choices_of("4.4.0") ^ {Choice.RAISED_IS_CALLED, Choice.RACK})
    assert pickle.loads(pickle.dumps(named)) is named  # noqa: S301  # our own bytes
    with pytest.raises(InputError, match="unknown rule 'RACKS' of a dialect; `fsm dialects` lists"):
        dialect("4.4-RACKS")


def test_a_dialect_of_ones_own() -> None:
    """To leave a choice out is to see what it changes; the same name and choices are the same dialect."""
    mine = custom("mine", choices_of("4.4.0") - {Choice.COLLECT_GATE})
    assert (mine.name, Choice.COLLECT_GATE in mine, Choice.MARK_LOST in mine) == ("mine", False, True)
    assert custom("mine", choices_of("4.4.0") - {Choice.COLLECT_GATE}) is mine
    assert pickle.loads(pickle.dumps(mine)) is mine  # noqa: S301  # our own bytes
