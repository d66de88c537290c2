"""The explorer in a browser: hostile texts, three widths, light and dark, names for everything, colours to read."""

from __future__ import annotations

import pytest
from explore_pages import ENTER, ESCAPE, Opened, count, opening, options, recorded, stands, texts

from fsm.explore.documents import page

pytestmark = pytest.mark.clients


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
    start = opening(1, title=attack, source=attack, properties={attack: attack}, states={attack: [attack]})
    start["components"] = [
        {"name": attack, "role": attack, "tables": [attack]},
        {"name": "b", "role": "", "tables": []},
    ]
    start["wires"] = [{"sender": attack, "receiver": "b"}]
    start["start"] = {"components": {}, "wires": {}, "broken": [], "disturbances": 0}
    step = dict.fromkeys(("text", "actor", "action", "disturbance", "sender", "message"), attack)
    wires = {f"{attack}>b": [{"text": attack, "late": True}]}
    delta = {"components": {attack: hostile}, "wires": wires, "broken": [attack], "disturbances": 1}
    browser = opened(page(start, [{**step, "receiver": "b", "at_ms": None, "delta": delta}]), "#at=1")
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


CONTRASTS = r"""(() => {
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (v) => (v > 10 ? ((v / 255 + 0.055) / 1.055) ** 2.4 : v / 255 / 12.92);
    const [r, g, b] = numbers(colour).map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    const [, , , covers = 1] = numbers(colour);
    return covers > 0 || !element.parentElement ? colour : ground(element.parentElement);
  };
  const found = [];
  for (const each of document.querySelectorAll('body *')) {
    const texts = [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!texts || each.closest('svg, :disabled, script, option') || !each.checkVisibility()) continue;
    const [one, other] = [light(getComputedStyle(each).color), light(ground(each))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push([each.className, each.textContent, contrast]);
  }
  return found;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read(group: str, opened: Opened, dark: bool) -> None:
    """Its contrast is at least 4.5, as WCAG 2.2 asks for at level AA, whatever is marked."""
    browser = opened(group, dark=dark)
    options(browser)
    for place in ("1 / 1", "2 / 2", "3 / 3"):
        browser.press("1")
        stands(browser, place)
        options(browser)
    browser.press("k")
    options(browser)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.run(CONTRASTS) == []
