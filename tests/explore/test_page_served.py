"""The explorer in a browser, with its server: a model walked by hand, links, and what could go wrong from there."""

from __future__ import annotations

import json
import threading

import pytest
from browser import Browser
from explore_pages import Opened, Serve, kinds, options, stands, text, texts, types

from fsm.check.catalog import make_model
from fsm.explore import ModelSession
from fsm.explore.documents import page
from fsm.explore.recording import Moment, Part, Recording, Shown
from fsm.explore.server import Explorer

pytestmark = pytest.mark.clients


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


def test_a_path_that_was_loaded_is_left_by_hand(serve: Serve, opened: Opened) -> None:
    """It is read from the server, walked like a recording, and left where the reader wants."""
    session = ModelSession(make_model("consumer-group"), [0, 0, 0])
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
    for address, message in (("#path=0.77777", "77777"), ("#path=x", "the address names no path")):
        page_of = opened(group, address)
        assert message in text(page_of, "#problem")
        stands(page_of, "0 / 0")
    browser.errors.clear()


def test_what_could_go_wrong_from_here_is_a_path_one_click_away(serve: Serve, opened: Opened) -> None:
    """The checker searches from the step of now; what it finds is walked like any path, and ends where it is broken."""
    browser = opened(serve(ModelSession(make_model("lock"))))
    options(browser)
    browser.press("1")
    stands(browser, "1 / 1")
    browser.press("c")
    browser.run("document.querySelector('#look').click()")
    browser.wait_for("document.querySelector('#verdict .fine')")
    assert text(browser, "#verdict").startswith("Every property holds")
    browser.run("document.querySelector('#disturb input[value=expire]').click()")
    browser.run("document.querySelector('#look').click()")
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


def test_a_long_recording_is_read_in_pieces_and_shown_where_the_address_says(serve: Serve, opened: Opened) -> None:
    """It can be walked while the rest of it is read; there is nothing to choose in it."""
    moments = [Moment(f"a does {i}", i, "a", f"does {i}", components={"a": Shown(f"did {i}")}) for i in range(1, 2_301)]
    browser = opened(serve(Recording("long", "made by hand", [Part("a", "member")], moments)), "#at=1700")
    stands(browser, "1,700 / 2,300")
    assert text(browser, "[data-name=a] .said") == "did 1700"
    assert browser.run("document.querySelector('#reading').textContent") == ""
    assert browser.run("document.querySelector('#next').hidden")
    types(browser, "#search", "does 2222")
    assert text(browser, "#found") == "1 match"
    browser.click("#steps .row")
    stands(browser, "2,222 / 2,300")


def test_a_click_counts_though_the_list_is_drawn_anew_under_it(serve: Serve, opened: Opened) -> None:
    """While a recording is read, played or scrolled, the row of the press is gone when the button comes up."""
    browser = opened(serve(ModelSession(make_model("consumer-group"), [0, 0, 0])), "#at=3")
    stands(browser, "3 / 3")
    at = browser.run("document.querySelector('#step-1').getBoundingClientRect().toJSON()")
    middle = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    browser.point("mousePressed", *middle)
    browser.run("paintList()")
    browser.point("mouseReleased", *middle)
    stands(browser, "1 / 3")
    assert browser.run("document.activeElement.id") == "steps"


@pytest.mark.parametrize(
    ("model", "right"),
    [
        ("connect", ["config topic", "broker"]),
        ("two-phase-commit", ["manager"]),
        ("lock", ["server", "store"]),
        ("consumer-group", ["broker"]),
    ],
)
def test_who_talks_to_each_other_stands_on_either_side(
    serve: Serve, opened: Opened, model: str, right: list[str]
) -> None:
    """Members on the left, whom they talk to on the right, and what is under way between them."""
    session = ModelSession(make_model(model))
    browser = opened(serve(session))
    assert texts(browser, ".hubs .card h3 bdi") == right
    wires = [f"{wire['sender']} → {wire['receiver']}" for wire in session.opening()["wires"]]
    assert sorted(texts(browser, ".sides .lane h4") + texts(browser, ".sides + .wires .lane h4")) == sorted(wires)


def test_a_server_that_has_ended_is_told(opened: Opened, browser: Browser) -> None:
    """What the page has stays; what it would have to ask for is named."""
    explorer = Explorer(ModelSession(make_model("lock"), [0, 0]), page=lambda key: page(key=key))
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
