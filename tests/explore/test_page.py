"""The explorer in a browser: a recording by buttons, keys and addresses, its views, long paths, many members."""

from __future__ import annotations

from typing import Any

import pytest
from explore_pages import (
    DOWN,
    END,
    ENTER,
    ESCAPE,
    HOME,
    LEFT,
    RIGHT,
    TABLE,
    Opened,
    count,
    member,
    opening,
    recorded,
    stands,
    text,
    texts,
    types,
)

from fsm.explore.documents import page
from fsm.tables import find

pytestmark = pytest.mark.clients


# -- a path, step by step ------------------------------------------------------------------------------------


def test_a_recording_is_walked_by_buttons_and_by_keys(opened: Opened) -> None:
    """Every way to move ends at the same positions."""
    browser = opened(page(opening(9), recorded(9)))
    stands(browser, "0 / 9")
    browser.click("#forward")
    stands(browser, "1 / 9")
    for key, code, place in [
        ("j", 0, "2 / 9"),
        ("ArrowRight", RIGHT, "3 / 9"),
        ("k", 0, "2 / 9"),
        ("ArrowLeft", LEFT, "1 / 9"),
        ("End", END, "9 / 9"),
        ("j", 0, "9 / 9"),
        ("Home", HOME, "0 / 9"),
    ]:
        browser.press(key, code)
        stands(browser, place)
    browser.click("#steps .row[data-at='4']")
    stands(browser, "4 / 9")
    browser.press("ArrowDown", DOWN)
    stands(browser, "5 / 9")
    browser.click("#last")
    browser.click("#back")
    stands(browser, "8 / 9")
    assert texts(browser, "#steps [aria-selected=true] .say") == ["broker receives from a: heartbeat 2"]


def test_what_is_missing_of_a_recording_stands_beside_its_source(opened: Opened) -> None:
    """Nothing stands there where it is whole."""
    missing = ["1 packet damaged or cut", "1 line left out"]
    browser = opened(page(opening(9, missing=missing), recorded(9)))
    assert text(browser, "#missing") == "missing: 1 packet damaged or cut; 1 line left out"
    browser = opened(page(opening(9), recorded(9)))
    assert browser.run("document.querySelector('#missing').textContent") == ""


def test_what_a_step_changed_stands_out_with_what_it_was(opened: Opened) -> None:
    """State, hop, field, queue and message; what did not change is as it was."""
    browser = opened(page(opening(9), recorded(9)), "#at=6")
    assert text(browser, "#now") == "step 6 a receives from broker: epoch 2 0.050 s"
    assert texts(browser, ".card.changed h3 bdi") == ["a"]
    assert texts(browser, "[data-name=a] .cell.new") == ["RECONCILINGACKNOWLEDGING"]
    lit = "[...document.querySelectorAll('[data-name=a] .window .{}')].map(e => e.dataset.state)"
    assert browser.run(lit.format("lit")) == ["ACKNOWLEDGING"]
    assert browser.run(lit.format("was")) == ["RECONCILING"]
    hops = "[...document.querySelectorAll('[data-name=a] .window .taken')].map(e => e.dataset.hops)"
    assert set(browser.run(hops)) == {'[["RECONCILING", "ACKNOWLEDGING"]]'}
    assert texts(browser, "[data-name=a] .fields .new") == ["member epoch12"]
    assert texts(browser, "[data-name=a] .queue .gone") == ["heartbeat due"]
    assert texts(browser, ".pills .gone.arrived") == ["arrivedepoch 2"]
    assert count(browser, "[data-name=b] .new, [data-name=b].changed") == 0
    assert browser.run("document.querySelector('#said').textContent").startswith("step 6 of 9: a receives from broker")


def test_the_lit_state_is_in_the_middle_of_its_window(opened: Opened) -> None:
    """A card shows the part of a diagram that matters, wherever in the drawing that is."""
    browser = opened(page(opening(30), recorded(30)), "#at=1")
    middle = """(() => {
      const [seen, lit] = ['.window', '.lit'].map((e) =>
        document.querySelector(`[data-name=a] ${e}`).getBoundingClientRect());
      return lit.left >= seen.left && lit.right <= seen.right && lit.top >= seen.top && lit.bottom <= seen.bottom;
    })()"""
    for _ in range(12):
        assert browser.run(middle)
        browser.press("j")


def test_the_component_that_changed_is_in_view(opened: Opened) -> None:
    """However low the window is; of the others one sees what there is room for."""
    steps = recorded(3)
    steps[1]["delta"]["components"] = {"b": member("JOINING", 4)}
    browser = opened(page(opening(3), steps), "#at=1", 1200, 700)
    shown = """(name => {
      const [seen, card] = ['#stage', `[data-name=${name}]`].map((e) =>
        document.querySelector(e).getBoundingClientRect());
      return card.top >= seen.top - 1 && card.bottom <= seen.bottom + 1;
    })"""
    for name in ("a", "b", "a"):
        assert browser.run(f"{shown}('{name}')"), name
        browser.press("j")


def test_the_address_names_the_step_and_the_browsers_back_returns(opened: Opened) -> None:
    """A step by hand is an entry in the history, a link leads to where it was copied, and playing leaves no trail."""
    made = page(opening(9), recorded(9))
    browser = opened(made, "#at=4&view=sequence")
    stands(browser, "4 / 9")
    browser.press("j")
    browser.press("j")
    assert browser.run("location.hash") == "#at=6&view=sequence"
    browser.run("history.back()")
    stands(browser, "5 / 9")
    browser.run("history.forward()")
    stands(browser, "6 / 9")
    before = browser.run("history.length")
    browser.run("document.querySelector('#speed').value = '60'")
    browser.press(" ")
    stands(browser, "9 / 9")
    browser.wait_for("location.hash === '#at=9&view=sequence'")
    assert browser.run("history.length") == before
    for wrong in ("#at=many", "#at=-3", "#at=1.5"):
        browser = opened(made, wrong)
        stands(browser, "0 / 9")
        assert text(browser, "#problem") == "the address names no step"


def test_playing_can_be_paused_and_ends_by_itself(opened: Opened) -> None:
    """Its button says what it does; while it plays, nobody is told of each step."""
    browser = opened(page(opening(300), recorded(300)))
    browser.run("document.querySelector('#speed').value = '20'")
    browser.click("#play")
    browser.wait_for("Number(document.querySelector('#place').textContent.split(' ')[0]) > 2")
    assert text(browser, "#play") == "❚❚ pause"
    assert browser.run("document.querySelector('#said').textContent") == ""
    browser.click("#play")
    place = text(browser, "#place")
    assert text(browser, "#play") == "▶ play"
    assert browser.run("document.querySelector('#said').textContent").startswith("step ")
    browser.run("new Promise((done) => setTimeout(done, 200))")
    assert text(browser, "#place") == place


def test_what_is_broken_is_told_in_the_list_and_above_the_components(opened: Opened) -> None:
    """With what it means."""
    steps = recorded(3)
    steps[2]["delta"]["broken"] = ["no partition has two users"]
    browser = opened(page(opening(3), steps), "#at=3")
    assert text(browser, "#broken") == "does not hold here: no partition has two users each has one at most"
    assert count(browser, "#steps .row.breaks") == 1
    browser.press("k")
    assert browser.run("document.querySelector('#broken').hidden")


def test_late_messages_are_marked_and_lost_ones_are_no_arrivals(opened: Opened) -> None:
    """A message that is given up stays on its connection until it arrives; one that is lost is struck through."""
    (sends,) = recorded(1)
    about = {**sends, "sender": "a", "receiver": "broker", "message": "heartbeat 0"}
    late = [{"text": "heartbeat 0", "late": True}]

    def becomes(action: str, under_way: list[Any], cost: int) -> dict[str, Any]:
        delta = {"components": {}, "wires": {"a>broker": under_way}, "broken": [], "disturbances": cost}
        return {**about, "text": f"{action} heartbeat 0", "action": action, "delta": delta}

    lose, delay = {"disturbance": "lose"}, {"disturbance": "late"}
    path = [becomes("late", late, 1) | delay, becomes("receives late", [], 1), sends, becomes("lost", [], 2) | lose]
    browser = opened(page(opening(5), [sends, *path]), "#at=2")
    assert texts(browser, ".pills .late") == ["lateheartbeat 0"]
    assert texts(browser, ".pills .gone b") == ["given up"]
    assert "1 disturbance so far" in text(browser, "#now")
    browser.press("j")
    assert texts(browser, ".pills .gone.arrived b") == ["late", "arrived"]
    browser.press("End", END)
    assert texts(browser, ".pills .gone:not(.arrived) b") == ["lost"]
    assert count(browser, ".pills .arrived") == 0
    assert texts(browser, "#steps .kind") == ["late", "lose"]
    browser.press("s")
    assert texts(browser, "#sequence .message") == [f"{what}: heartbeat 0" for what in ("late", "late", "lost")]
    assert count(browser, "#sequence .line.lost") == 1
    assert count(browser, "#sequence .line.late") == 2
    ends = browser.run(
        "[...document.querySelectorAll('#sequence .tip')].map((tip) => /a4,4/.test(tip.getAttribute('d')))"
    )
    assert ends.count(True) == 1  # a circle where it is held up, a cross where it is lost


def test_arrows_point_to_the_receiver_in_whatever_order_the_connections_come(opened: Opened) -> None:
    """A recording sorts them by name: of a member called `worker` the answers come first."""
    start = opening(1)
    start["wires"].reverse()
    browser = opened(page(start, recorded(1)))
    assert texts(browser, ".lane.there h4") == ["a → broker", "b → broker"]
    assert texts(browser, ".lane.back h4") == ["broker → a", "broker → b"]


# -- views ---------------------------------------------------------------------------------------------------


def test_the_whole_diagram_shows_where_each_member_is(opened: Opened) -> None:
    """The diagram is one click away from a card, and says who is where."""
    browser = opened(page(opening(9), recorded(9)), "#at=6")
    browser.click("[data-name=a] .window")
    assert browser.run("location.hash") == "#at=6&table=consumer-member&view=machine"
    assert sorted(texts(browser, "#board .tag")) == ["a", "b"]
    where = "e => [e.textContent, e.closest('[data-state]').dataset.state]"
    found = dict(browser.run(f"[...document.querySelectorAll('#board .tag')].map({where})"))
    assert found == {"a": "ACKNOWLEDGING", "b": "UNSUBSCRIBED"}
    browser.press("v")
    assert browser.run("document.querySelector('#machine').hidden")


def test_the_sequence_has_an_arrow_for_each_message(opened: Opened) -> None:
    """Of a long path it has the last steps; a click on one goes there."""
    browser = opened(page(opening(90), recorded(90)), "#at=9")
    browser.press("s")
    assert count(browser, "#sequence .seq") == 9
    assert count(browser, "#sequence .line") == 6
    browser.run(
        "document.querySelectorAll('#sequence .seq')[3].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    stands(browser, "4 / 90")
    browser.press("End", END)
    stands(browser, "90 / 90")
    assert count(browser, "#sequence .seq") == 60
    assert text(browser, "#sequence p") == "30 steps before these are not shown"


def test_a_table_without_a_drawing_has_its_states_named(opened: Opened) -> None:
    """With the one of now among them."""
    browser = opened(page(opening(9, tables={}), recorded(9)), "#at=6")
    assert texts(browser, "[data-name=a] .states .lit") == ["ACKNOWLEDGING"]
    assert count(browser, "[data-name=a] .states span") == len(list(find(TABLE).leaves()))
    browser.press("d")
    assert "no diagram" in text(browser, "#board")


# -- long paths, many members --------------------------------------------------------------------------------


def test_ten_thousand_steps_take_no_more_elements_than_thirty(opened: Opened) -> None:
    """Rows are made for what is in view; a jump to the end, a search and a scroll are as light as a step."""
    few = opened(page(opening(30), recorded(30)), "#at=30").run("document.querySelectorAll('*').length")
    steps = recorded(10_000)
    fits = [i for i, step in enumerate(steps, 1) if "sends" in step["text"] and "3" in step["text"]]
    browser = opened(page(opening(10_000), steps), "#at=9000")
    stands(browser, "9,000 / 10,000")
    assert text(browser, "[data-name=a] .fields bdi") == "3000"
    nodes = "document.querySelectorAll('*').length"
    assert browser.run(nodes) < few + 150
    browser.press("End", END)
    stands(browser, "10,000 / 10,000")
    types(browser, "#search", "3 sends")
    assert text(browser, "#found") == f"{len(fits):,} matches"
    assert browser.run(nodes) < few + 150
    browser.run("document.querySelector('#search').focus()")
    browser.press("Enter", ENTER)
    stands(browser, f"{fits[0]} / 10,000")
    browser.press("Enter", ENTER)
    stands(browser, f"{fits[1]} / 10,000")
    browser.press("Escape", ESCAPE)
    assert text(browser, "#place") == f"{fits[1]} / 10,000"
    browser.run("document.querySelector('#steps').scrollTop = 5000 * 28")
    browser.wait_for("document.querySelector('#step-5000')")
    assert count(browser, "#steps .row") < 60
    assert browser.run("document.querySelector('#step-5000').getAttribute('aria-setsize')") == "10001"


def test_of_many_members_only_those_of_the_step_are_shown_whole(opened: Opened) -> None:
    """Others can be opened."""
    names = [f"m{i}" for i in range(40)]
    start = opening(1)
    start["components"] += [{"name": name, "role": "member", "tables": [TABLE]} for name in names]
    start["start"]["components"] |= {name: member("STABLE", 7) for name in names}
    browser = opened(page(start, recorded(1)), "#at=1")
    whole = (
        "[...document.querySelectorAll('.card')].filter(e => !e.querySelector('.body').hidden).map(e => e.dataset.name)"
    )
    assert browser.run(whole) == ["a"]
    assert browser.run("document.querySelectorAll('*').length") < 6_000
    browser.click("[data-name=m7] .toggle")
    assert browser.run(whole) == ["a", "m7"]
    assert browser.run("document.documentElement.scrollWidth") <= 1600
    browser.press("s")
    assert texts(browser, "#sequence .head") == ["a"]
