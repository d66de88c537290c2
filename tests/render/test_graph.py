"""What a picture says of a table, whoever draws it."""

from __future__ import annotations

import pytest

from fsm.render.tables.graph import Kind, identifiers, lines, picture, where
from fsm.table import Symbol, Table, row
from fsm.tables import ALL


def labels_of(table: Table, **options: bool) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(e.source, e.target): lines(e.labels) for e in picture(table, **options).edges}


def test_rows_between_the_same_states_share_one_edge_with_a_label_each(door: Table) -> None:
    """AJAR goes to CLOSED by a row of its holder and by a row of its own: one edge, two labels."""
    assert labels_of(door)["AJAR", "CLOSED"] == ("SLAMMED (D5)", "PULLED (D10)")


def test_a_row_that_passes_through_a_state_is_a_chain_of_hops(door: Table) -> None:
    """LOCKED to CLOSED to OPEN in one row: the second hop names where the row began, and ends in the leaf entered."""
    edges = labels_of(door)
    assert edges["LOCKED", "CLOSED"] == ("KEY_TURNED (D7)",)
    assert edges["CLOSED", "AJAR"] == ("PUSHED (D1)", "KEY_TURNED (D7), from LOCKED")


def test_states_with_the_same_edge_get_a_frame_and_one_edge(door: Table) -> None:
    """Four states are kicked to pieces; the frame around them is, once, and stands for four pairs."""
    kicked = next(e for e in picture(door).edges if e.target == "BROKEN")
    assert kicked.source == "any of CLOSED or AJAR or WIDE or LOCKED"
    assert kicked.pairs == (("CLOSED", "BROKEN"), ("AJAR", "BROKEN"), ("WIDE", "BROKEN"), ("LOCKED", "BROKEN"))


def test_without_regions_the_holder_still_speaks_for_its_states(door: Table) -> None:
    """AJAR and WIDE are inside OPEN, so their common edge leaves OPEN; the others keep their own."""
    sources = [source for source, target in labels_of(door, regions=False) if target == "BROKEN"]
    assert sources == ["CLOSED", "OPEN", "LOCKED"]


def test_frames_nest(door: Table) -> None:
    """The region holds CLOSED, LOCKED and the frame of OPEN, which is entered at AJAR."""
    (region,) = picture(door).clusters
    (inner,) = region.clusters
    assert ([n.name for n in region.nodes], region.holder) == (["CLOSED", "LOCKED"], False)
    assert ([n.name for n in inner.nodes], inner.holder, inner.entry) == (["AJAR", "WIDE"], True, "AJAR")


def test_stays_and_ignores_are_listed_in_their_node(door: Table) -> None:
    """LOCKED answers a push without an edge, and its ignores carry their reason."""
    locked = next(n for n in picture(door).all_nodes() if n.name == "LOCKED")
    assert [(label.events, label.effects) for label in locked.stays] == [(("PUSHED",), ("RATTLE",))]
    assert [(label.events, label.note) for label in locked.ignored] == [(("PULLED", "SLAMMED"), "shut already")]


def test_a_performed_self_transition_is_a_loop(door: Table) -> None:
    """CLOSED enters CLOSED again when it is pulled."""
    assert labels_of(door)["CLOSED", "CLOSED"] == ("PULLED (D4)",)


def test_kinds_of_states() -> None:
    """A state that is only ever passed through is told from one where a machine can rest."""
    state = Symbol("State", {"A": "begins", "B": "on the way", "C": "rests", "D": "ends"})  # type: ignore[arg-type]
    event = Symbol("Event", {"GO": "goes on"})  # type: ignore[arg-type]
    a, b, c, d = state
    (go,) = event
    table = Table("kinds", a, (row(a, go, b, c), row(b, go, c), row(c, go, d)), (d,))
    kinds = {n.name: n.kind for n in picture(table).all_nodes()}
    assert kinds == {"A": Kind.INITIAL, "B": Kind.PASSING, "C": Kind.RESTING, "D": Kind.TERMINAL}


def test_a_line_that_stays_in_most_states_is_said_once() -> None:
    """Six states, a row that stays in five of them: a note, and no entry in any node."""
    state = Symbol("State", {name: f"is {name}" for name in "ABCDEF"})  # type: ignore[arg-type]
    event = Symbol("Event", {"NEXT": "goes on", "PING": "does not"})  # type: ignore[arg-type]
    states = list(state)
    following, ping = event
    ring = [row(a, following, b) for a, b in zip(states, [*states[1:], states[0]], strict=True)]
    drawn = picture(Table("ring", states[0], (*ring, row(states[:5], ping))))
    (note,) = drawn.notes
    assert (note.label.events, where(note, "ABCDEF")) == (("PING",), "in every state but F")
    assert not any(node.stays for node in drawn.all_nodes())


def test_counts_are_summed_over_the_pairs_of_an_edge(door: Table) -> None:
    """Three kicks from AJAR and one from LOCKED are four on the frame's edge; an edge nobody took has none."""
    drawn = picture(door, {("AJAR", "BROKEN"): 3, ("LOCKED", "BROKEN"): 1}, [("AJAR", "WIDE")])
    counts = {(e.source, e.target): e.count for e in drawn.edges}
    assert counts["any of CLOSED or AJAR or WIDE or LOCKED", "BROKEN"] == 4
    assert counts["AJAR", "WIDE"] == 0
    assert [(e.source, e.target) for e in drawn.edges if e.highlighted] == [("AJAR", "WIDE")]


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
@pytest.mark.parametrize("regions", [True, False])
def test_a_picture_has_every_hop_of_its_table_and_no_other(table: Table, regions: bool) -> None:
    """The pairs of all edges are the observable hops of the compiled table, each once."""
    columns = table.columns
    hops = [(columns.states[a], columns.states[b]) for a, b, _ in columns.edges]
    assert sorted(p for e in picture(table, regions=regions).edges for p in e.pairs) == sorted(hops)


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_a_picture_names_every_event_of_every_cell(table: Table) -> None:
    """For each handled cell its state's edges, node, frames or the notes name the event; likewise for the ignored."""
    drawn = picture(table)
    for handled in (True, False):
        shown = {
            (s, e) for note in drawn.notes if note.ignored != handled for s in note.states for e in note.label.events
        }
        for node in drawn.all_nodes():
            labels = node.stays if handled else node.ignored
            shown |= {(node.name, e) for label in labels for e in label.events}
        for cluster in drawn.all_clusters():
            labels = cluster.stays if handled else cluster.ignored
            shown |= {(s, e) for s in cluster.members() for label in labels for e in label.events}
        for edge in drawn.edges if handled else ():
            first = [label for label in edge.labels if not label.origin]
            shown |= {(s, e) for s, _ in edge.pairs for label in first for e in label.events}
        assert shown == {(s.name, e.name) for (s, e), cell in table.compiled.items() if cell.ignored != handled}


def test_identifiers_are_words_and_differ_even_without_regard_to_case(hostile: Table) -> None:
    """Seventeen attacks become seventeen ASCII words, none of them reserved."""
    words = identifiers(picture(hostile), frozenset(("end", "state", "start")))
    assert all(word.isascii() and word.replace("_", "a").isalnum() for word in words.values())
    assert len({word.casefold() for word in words.values()}) == len(words) >= 17
    assert not {word.casefold() for word in words.values()} & {"end", "state", "start"}
