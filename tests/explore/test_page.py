"""The explorer in a browser: walking by hand, addresses, long paths, a file by itself, hostile texts, all screens."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser

from fsm.check.catalog import shipped
from fsm.explore import ModelSession
from fsm.explore.diagrams import diagram
from fsm.explore.html import page
from fsm.explore.server import Explorer
from fsm.tables import find

pytestmark = pytest.mark.clients
END, HOME, LEFT, UP, RIGHT, DOWN = 35, 36, 37, 38, 39, 40
ENTER, ESCAPE = 13, 27
TABLE = "consumer-member"
STATES = ("JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE")


# -- documents -----------------------------------------------------------------------------------------------


def member(state: str, epoch: int, items: tuple[str, ...] = ()) -> dict[str, Any]:
    """A member as the page is told of it."""
    return {
        "said": f"{state} at epoch {epoch}",
        "cells": [{"table": TABLE, "state": state, "of": ""}],
        "fields": [["member epoch", str(epoch)], ["owned", "foo-0"]],
        "queues": [{"name": "application queue", "items": []}, {"name": "background queue", "items": list(items)}],
    }


def opening(steps: int, **more: Any) -> dict[str, Any]:
    """Of a recording: two members and their coordinator."""
    broker = {"said": "epoch 0", "cells": [], "fields": [], "queues": []}
    wires = [("a", "broker"), ("broker", "a"), ("b", "broker"), ("broker", "b")]
    start = {
        "components": {"a": member("UNSUBSCRIBED", 0), "b": member("UNSUBSCRIBED", 0), "broker": broker},
        "wires": {f"{sender}>{receiver}": [] for sender, receiver in wires},
        "broken": [],
        "disturbances": 0,
    }
    return {
        "title": "a recorded group",
        "source": "made by hand",
        "kind": "recording",
        "components": [
            {"name": "a", "role": "member", "tables": [TABLE]},
            {"name": "b", "role": "member", "tables": [TABLE]},
            {"name": "broker", "role": "coordinator", "tables": []},
        ],
        "wires": [{"sender": sender, "receiver": receiver} for sender, receiver in wires],
        "tables": {TABLE: diagram(find(TABLE))},
        "states": {TABLE: [state.name for state in find(TABLE).leaves()]},
        "properties": {"one user": "no partition has two users"},
        "kinds": [],
        "start": start,
        "can_branch": False,
        "length": steps,
        **more,
    }


def recorded(count: int) -> list[dict[str, Any]]:
    """So many steps of a, in threes: it sends, the coordinator answers, and the answer moves it."""
    steps = []
    for i in range(count):
        epoch, phase = i // 3, i % 3
        told = {
            "actor": "",
            "action": "",
            "disturbance": "",
            "sender": "",
            "receiver": "",
            "message": "",
            "at_ms": i * 10,
        }
        delta: dict[str, Any] = {"components": {}, "wires": {}, "broken": [], "disturbances": 0}
        if phase == 0:
            told |= {"text": f"a sends heartbeat {epoch}", "actor": "a", "action": f"sends heartbeat {epoch}"}
            delta["wires"]["a>broker"] = [{"text": f"heartbeat {epoch}", "late": False}]
            delta["components"]["a"] = member(STATES[epoch % 4], epoch, ("heartbeat due",))
        elif phase == 1:
            told |= {"text": f"broker receives from a: heartbeat {epoch}", "actor": "broker", "action": "receives"}
            told |= {"sender": "a", "receiver": "broker", "message": f"heartbeat {epoch}"}
            delta["wires"] |= {"a>broker": [], "broker>a": [{"text": f"epoch {epoch + 1}", "late": False}]}
        else:
            told |= {"text": f"a receives from broker: epoch {epoch + 1}", "actor": "a", "action": "receives"}
            told |= {"sender": "broker", "receiver": "a", "message": f"epoch {epoch + 1}"}
            delta["wires"]["broker>a"] = []
            delta["components"]["a"] = member(STATES[(epoch + 1) % 4], epoch + 1)
        steps.append({**told, "delta": delta})
    return steps


# -- a browser, a file, a server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all; each test opens its own page."""
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


Opened = Callable[..., Browser]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page from its file, or from where it is served, and wants no complaint of it in the end."""

    def go(where: str, address: str = "", width: int = 1600, height: int = 1000, **said: Any) -> Browser:
        if not where.startswith("http"):
            file = tmp_path / "explore.html"
            file.write_text(where, encoding="utf-8")
            where = f"file://{file}"
        browser.resize(width, height, **said)
        browser.open("about:blank")
        browser.open(f"{where}{address}")
        browser.wait_for("document.body?.classList.contains('running')")
        return browser

    browser.errors.clear()
    yield go
    browser.open("about:blank")
    assert browser.errors == []


@pytest.fixture
def serve() -> Iterator[Callable[[ModelSession], str]]:
    """Serves sessions on loopback; gives their addresses."""
    running: list[tuple[Explorer, threading.Thread]] = []

    def start(session: ModelSession) -> str:
        explorer = Explorer(session, page=lambda key: page(key=key))
        thread = threading.Thread(target=explorer.serve, daemon=True)
        thread.start()
        running.append((explorer, thread))
        return explorer.url

    yield start
    for explorer, thread in running:
        explorer.close()
        thread.join(10)


def text(browser: Browser, selector: str) -> str:
    """The text of the first element that is found, on one line; waits for it."""
    found: str = browser.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText")
    return " ".join(found.split())


def texts(browser: Browser, selector: str) -> list[str]:
    """The texts of all elements that are found."""
    found = browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return [" ".join(one.split()) for one in found]


def count(browser: Browser, selector: str) -> int:
    """How many there are."""
    found: int = browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")
    return found


def stands(browser: Browser, place: str) -> None:
    """Waits until the page stands there: `step / steps`."""
    browser.wait_for(f"document.querySelector('#place').textContent === {json.dumps(place)}")


def types(browser: Browser, selector: str, value: str) -> None:
    """Puts a value into a field."""
    put = f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}}))"
    browser.run(f"(e => {{ {put} }})(document.querySelector({json.dumps(selector)}))")


def options(browser: Browser) -> list[str]:
    """What can be chosen, once it has come."""
    browser.wait_for("document.querySelector('#options .option') && !document.querySelector('#options.waiting')")
    return texts(browser, "#options .option .say")


def kinds(browser: Browser) -> set[str]:
    """The kinds of disturbance that can be chosen."""
    return set(browser.run("[...document.querySelectorAll('#options .disturbs')].map(e => e.dataset.kind)"))


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
    steps[2]["delta"]["broken"] = ["one user"]
    browser = opened(page(opening(3), steps), "#at=3")
    assert text(browser, "#broken") == "does not hold here: one user no partition has two users"
    assert count(browser, "#steps .row.breaks") == 1
    browser.press("k")
    assert browser.run("document.querySelector('#broken').hidden")


def test_late_messages_are_marked_and_lost_ones_are_no_arrivals(opened: Opened) -> None:
    """A message that is given up stays on its connection; one that is lost leaves it struck through."""
    steps = recorded(1)
    lost = {**steps[0], "text": "lost on the way from a to broker (lose): heartbeat 0", "disturbance": "lose"}
    lost |= {"action": "lost", "sender": "a", "receiver": "broker", "message": "heartbeat 0"}
    late = {
        **lost,
        "text": "late on the way from a to broker (late): heartbeat 0",
        "disturbance": "late",
        "action": "late",
    }
    one = {"text": "heartbeat 0", "late": True}
    late["delta"] = {"components": {}, "wires": {"a>broker": [one]}, "broken": [], "disturbances": 1}
    lost["delta"] = {"components": {}, "wires": {"a>broker": []}, "broken": [], "disturbances": 2}
    browser = opened(page(opening(3), [*steps, late, lost]), "#at=2")
    assert texts(browser, ".pills .late") == ["lateheartbeat 0"]
    assert texts(browser, ".pills .gone b") == ["given up"]
    assert "1 disturbance so far" in text(browser, "#now")
    browser.press("j")
    assert texts(browser, ".pills .gone:not(.arrived) b") == ["late", "lost"]
    assert count(browser, ".pills .arrived") == 0
    assert texts(browser, "#steps .kind") == ["late", "lose"]


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
    assert text(browser, "#sequence p") == "30 steps before these are left out"


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
    assert text(browser, "#found") == f"{len(fits):,} steps fit"
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
    told = opening(1)
    told["components"] += [{"name": name, "role": "member", "tables": [TABLE]} for name in names]
    told["start"]["components"] |= {name: member("STABLE", 7) for name in names}
    browser = opened(page(told, recorded(1)), "#at=1")
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


# -- a model, walked by hand ---------------------------------------------------------------------------------


@pytest.fixture
def group(serve: Callable[[ModelSession], str]) -> str:
    """A served consumer group."""
    return serve(ModelSession(shipped("consumer-group")))


def test_a_model_is_walked_by_its_options(group: str, opened: Opened) -> None:
    """By the mouse or a key; what each would change is told before it is taken, and disturbances are marked."""
    browser = opened(group)
    assert options(browser) == ["subscribes", "subscribes"]
    assert texts(browser, "#options h3") == ["a", "b"]
    browser.click("#options .option")
    stands(browser, "1 / 1")
    browser.wait_for("document.querySelectorAll('#options .option').length > 3")
    assert {"crash", "leave", "close"} <= kinds(browser)
    browser.run("document.querySelector('#options .option').focus()")
    assert text(browser, "[data-name=a] .preview").endswith("JOINING at epoch 0, uses nothing")
    browser.press("1")
    stands(browser, "2 / 2")
    assert texts(browser, "#steps .say") == ["start", "a subscribes", "a polls"]
    browser.wait_for("[...document.querySelectorAll('#options .say')].some(e => e.textContent.startsWith('receives'))")
    browser.run("document.querySelector('#kinds').open = true")
    browser.click("#kinds button:nth-of-type(2)")
    browser.wait_for("!document.querySelector('#options .disturbs')")
    assert text(browser, "#offered").endswith("left out")
    browser.click("#kinds input[value=late]")
    browser.wait_for("document.querySelector('#options .disturbs')")
    assert kinds(browser) == {"late"}


def test_another_step_leaves_the_path_and_back_returns_to_it(group: str, opened: Opened) -> None:
    """The path ahead stays while one walks on it; the address holds it whole, so a link restores it."""
    browser = opened(group)
    options(browser)
    for place in ("1 / 1", "2 / 2"):
        browser.press("1")
        stands(browser, place)
        options(browser)
    address = browser.run("location.hash")
    assert address.startswith("#path=")
    browser.press("k")
    stands(browser, "1 / 2")
    options(browser)
    browser.wait_for("document.querySelector('#options .next')")
    assert texts(browser, "#options .next .say") == ["polls"]
    browser.press("2")
    stands(browser, "2 / 2")
    left = texts(browser, "#steps .say")
    assert left[1] == "a subscribes"
    assert left[2] != "a polls"
    browser.run("history.back()")
    stands(browser, "1 / 2")
    assert texts(browser, "#steps .say")[2] == "a polls"
    again = opened(group, address)
    stands(again, "2 / 2")
    assert texts(again, "#steps .say") == ["start", "a subscribes", "a polls"]
    assert text(again, "#now").startswith("step 2 a polls")


def test_a_path_that_was_loaded_is_left_by_hand(serve: Callable[[ModelSession], str], opened: Opened) -> None:
    """It is read from the server, walked like a recording, and left where the reader wants."""
    session = ModelSession(shipped("consumer-group"), [0, 0, 0])
    loaded = [step["text"] for step in session.steps(0, 9)["steps"]]
    browser = opened(serve(session), "#at=2")
    stands(browser, "2 / 3")
    assert texts(browser, "#steps .say") == ["start", *loaded]
    offered = options(browser)
    other = next(
        i
        for i, _ in enumerate(offered)
        if not browser.run(f"document.querySelectorAll('.option')[{i}].classList.contains('next')")
    )
    browser.run(f"document.querySelectorAll('.option')[{other}].click()")
    stands(browser, "3 / 3")
    assert texts(browser, "#steps .say")[3] != loaded[2]
    browser.run("history.back()")
    stands(browser, "2 / 3")
    browser.wait_for(f"document.querySelector('#step-3 .say').textContent === {json.dumps(loaded[2])}")
    assert browser.run("location.hash") == "#at=2"


def test_an_address_that_leads_nowhere_is_told(group: str, opened: Opened, browser: Browser) -> None:
    """And the page stands at the start."""
    for address, said in (("#path=0.77777", "77777"), ("#path=x", "the address names no path")):
        page_of = opened(group, address)
        assert said in text(page_of, "#problem")
        stands(page_of, "0 / 0")
    browser.errors.clear()


def test_what_could_go_wrong_from_here_is_a_path_one_click_away(
    serve: Callable[[ModelSession], str], opened: Opened
) -> None:
    """The checker searches from the step of now; what it finds is walked like any path, and ends where it is broken."""
    browser = opened(serve(ModelSession(shipped("lock"))))
    options(browser)
    browser.press("1")
    stands(browser, "1 / 1")
    browser.press("c")
    browser.run("document.querySelector('#check button').click()")
    browser.wait_for("document.querySelector('#verdict .fine')")
    assert text(browser, "#verdict").startswith("Everything that is asked holds")
    browser.run("document.querySelector('#disturb input[value=expire]').click()")
    browser.run("document.querySelector('#check button').click()")
    browser.wait_for("document.querySelector('.violation summary')")
    assert "from step 1, with expire" in text(browser, "#verdict .bad")
    steps = texts(browser, ".violation li .plain")
    browser.run("document.querySelector('.violation').open = true")
    browser.click(".violation .walk")
    stands(browser, f"1 / {1 + len(steps)}")
    assert browser.run("document.querySelector('#broken').hidden")
    browser.click(".violation .walk:nth-of-type(2)")
    stands(browser, f"{1 + len(steps)} / {1 + len(steps)}")
    assert texts(browser, "#steps .say")[2:] == steps
    assert texts(browser, ".violation summary b")[0] in text(browser, "#broken")
    address = browser.run("location.hash")
    again = opened(browser.run("location.origin") + "/", address)
    assert text(again, "#place") == f"{1 + len(steps)} / {1 + len(steps)}"
    assert not again.run("document.querySelector('#broken').hidden")


def test_a_server_that_has_ended_is_told(opened: Opened, browser: Browser) -> None:
    """What the page has stays; what it would have to ask for is named."""
    explorer = Explorer(ModelSession(shipped("lock"), [0, 0]), page=lambda key: page(key=key))
    thread = threading.Thread(target=explorer.serve, daemon=True)
    thread.start()
    left = opened(explorer.url)
    options(left)
    explorer.close()
    thread.join(10)
    left.press("j")
    stands(left, "1 / 2")
    left.wait_for("document.querySelector('#problem').textContent.startsWith('fsm explore has ended')")
    left.press("j")
    stands(left, "2 / 2")
    left.open("about:blank")
    browser.errors.clear()


# -- harmless, on every screen -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        "<script>document.body.dataset.pwned = 1</script>",
        '"><img src=x onerror="document.body.dataset.pwned = 1">',
        "</script><script>document.body.dataset.pwned = 1</script>",
        "<!--<script>",
        "__proto__",
        "{{script}}",
        "a\u202eb\u0000c",
    ],
)
def test_what_a_capture_says_stays_text(opened: Opened, attack: str) -> None:
    """Names, states, messages and fields are shown as they are, in each view, and nothing of them runs."""
    hostile = {
        "said": attack,
        "cells": [{"table": attack, "state": attack, "of": attack}],
        "fields": [[attack, attack]],
        "queues": [{"name": attack, "items": [attack]}],
    }
    told = opening(1, title=attack, source=attack, properties={attack: attack}, states={attack: [attack]})
    told["components"] = [{"name": attack, "role": attack, "tables": [attack]}, {"name": "b", "role": "", "tables": []}]
    told["wires"] = [{"sender": attack, "receiver": "b"}]
    told["start"] = {"components": {}, "wires": {}, "broken": [], "disturbances": 0}
    step = dict.fromkeys(("text", "actor", "action", "disturbance", "sender", "message"), attack)
    wires = {f"{attack}>b": [{"text": attack, "late": True}]}
    delta = {"components": {attack: hostile}, "wires": wires, "broken": [attack], "disturbances": 1}
    browser = opened(page(told, [{**step, "receiver": "b", "at_ms": None, "delta": delta}]), "#at=1")
    seen = attack.replace("\u202e", "\\u202e").replace("\u0000", "\\u0000")
    for selector in ("#title", ".card h3 bdi", ".cell b", ".fields dt", ".queue li", ".pills bdi", "#steps .say"):
        assert seen in texts(browser, selector), selector
    for key in "dsv":
        browser.press(key)
    assert browser.run("document.body.dataset.pwned") is None
    assert browser.run("document.images.length") == 0
    assert count(browser, "script:not([type])") == 1


@pytest.mark.parametrize("width", [390, 1024, 1600])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("view", ["stage", "machine", "sequence"])
def test_the_page_fits_its_screen(opened: Opened, width: int, dark: bool, view: str) -> None:
    """Nothing is wider than the screen, and the colours are those that the reader likes."""
    browser = opened(page(opening(9), recorded(9)), f"#at=6&view={view}", width, dark=dark, phone=width < 500)
    assert browser.run("document.documentElement.scrollWidth") <= width
    light = browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light is not dark
    where = "e => e.getBoundingClientRect()"
    box = browser.run(f"(({where})(document.querySelector('#scene'))).toJSON()")
    assert box["left"] >= 0
    assert box["right"] <= width
    assert box["width"] > (0.9 * width if width < 1000 else 0.5 * width)


def test_everything_has_a_name_and_is_reached_by_keys(group: str, opened: Opened) -> None:
    """Controls are labelled, the focus follows, and help tells the keys."""
    browser = opened(group)
    options(browser)
    nameless = """[...document.querySelectorAll('button, input, select, [role]')].filter((e) => e.checkVisibility() &&
      !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.title || e.ariaLabelledByElements?.length ||
        ['presentation', 'status', 'alert'].includes(e.role))).map((e) => e.outerHTML)"""
    assert browser.run(nameless) == []
    browser.press("?")
    browser.wait_for("document.querySelector('#help').open")
    assert browser.run("document.querySelector('#help').contains(document.activeElement)")
    browser.press("j")
    browser.press("Escape", ESCAPE)
    browser.wait_for("!document.querySelector('#help').open")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"
    browser.press("j")
    assert browser.run("document.activeElement.value") == "j"
    browser.press("Escape", ESCAPE)
    browser.press("c")
    assert browser.run("document.activeElement.closest('#trouble') !== null")
    browser.run("document.querySelector('#options .option').focus()")
    browser.press("Enter", ENTER)
    stands(browser, "1 / 1")
    browser.wait_for("document.activeElement.closest('#options')")
