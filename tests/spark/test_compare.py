"""Two results held against each other: what is worse, what is better, and what cannot be compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browser import Browser

from fsm import cli
from fsm.errors import InputError
from fsm.render.report.compare import Change, Comparison, Counts, Side, render_comparison
from fsm.spark.compare import compare

from .conftest import document, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
POLLED, DOUBLED = "g-j07-maxpoll", "g-i-j13-dup-instance"


@pytest.fixture(scope="module")
def results(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A result with a group that goes wrong, and one where it is gone, another is there, and a third is as before."""
    root = tmp_path_factory.mktemp("compared")
    for name, scenarios in (("before", ("j07_maxpoll", "x01")), ("after", ("i_j13_dup_instance", "x01"))):
        for scenario in scenarios:
            source = recordings / scenario if scenario != "x01" else recordings / "c14_regex"
            shutil.copytree(source, root / f"{name}-logs" / scenario)
        run([root / f"{name}-logs"], root / name, master="none")
    return root / "before", root / "after"


def test_groups_are_worse_better_or_as_before(results: tuple[Path, Path]) -> None:
    """A group that came with errors or incidents is worse, one that went with its own is better; numbers are theirs."""
    told = compare(*results)
    assert [one.group for one in told.worse] == [DOUBLED]
    assert [one.group for one in told.better] == [POLLED]
    assert (told.worse_count, told.better_count, told.same_count) == (1, 1, 1)
    (gone,) = told.better
    assert gone.after is None
    (known,) = (one for one in document(results[0])["groups"] if one["group"] == POLLED)
    assert gone.before == Counts(
        known["errors"], known["warnings"], known["rebalances"], known["partitions_moved"], known["members"]
    )
    assert ("double_ownership", "no_poll", 1) in gone.went
    assert told.before.counts.members == sum(one["members"] for one in document(results[0])["groups"])
    assert sum(step.rebalances for step in told.before.trend.steps.values()) == told.before.counts.rebalances


def test_a_result_is_as_itself(results: tuple[Path, Path]) -> None:
    """Nothing is worse, nothing better; the exit status says so."""
    told = compare(results[0], results[0])
    assert (told.worse_count, told.better_count) == (0, 0)
    assert told.worse == told.better == []
    assert (
        cli.main(["audit", "--compare", str(results[0]), str(results[0]), "-o", str(results[0].parent / "same")]) == 0
    )


def test_the_command_says_what_is_worse(
    results: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums before and after, the worst groups with what came, and where the page is; exit status 1."""
    given = ["audit", "--compare", *map(str, results), "-o", str(tmp_path / "out")]
    assert cli.main(given) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[0] == "errors"
    assert said[-1] == f"1 group worse, 1 better, 1 as before; page: {tmp_path / 'out' / 'compare.html'}"
    assert any(line.startswith(f"worse: {DOUBLED}: more of ") for line in said)
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert POLLED in page and DOUBLED in page  # noqa: PT018
    assert cli.main(given) == 1
    assert (tmp_path / "out" / "compare.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{before}"], "--compare: needs two results; give the folder of the older audit, then that of the newer one"),
        (["{before}", "{logs}"], "holds no result of an audit; give the folder of `fsm audit -o`"),
        (["{before}", "{before}", "--json"], "--compare: compares existing results; leave out --json"),
        (["{before}", "{before}", "--group", "g", "--stop-ms", "9"], "leave out --group, --stop-ms"),
        (["{before}", "{older}"], "has no table incidents; audit the logs again with this version"),
        (["{before}", "{broken}"], "is not the document of an audit; audit the logs again with this version"),
    ],
)
def test_what_cannot_be_compared_is_said_on_one_line(
    results: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit status 2, and one line with the remedy."""
    places = {"before": results[0], "logs": tmp_path, "older": tmp_path / "older", "broken": tmp_path / "broken"}
    for name in ("older", "broken"):
        shutil.copytree(results[0], places[name])
    shutil.rmtree(tmp_path / "older" / "incidents.parquet")
    (tmp_path / "broken" / "audit.json").write_text('{"inputs": {cut')
    paths = [one.format(**places) for one in arguments]
    assert cli.main(["audit", "--compare", *paths, "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no result"):
        compare(tmp_path, tmp_path)


# -- the page -------------------------------------------------------------------------------------------------

HOSTILE = "<script>document.body.dataset.pwned = 1</script>"


def page() -> str:
    """A page with groups whose names are hostile."""
    worse = [
        Change(f"{HOSTILE}{i}", Counts(1, 2, 3, 4, 5), Counts(3, 2, 9, 4, 5), (("double_ownership", "no_poll", 2),))
        for i in range(40)
    ]
    better = [Change("orders", Counts(4, 0, 9, 9, 3), None, (), (("stuck_state", "", 4),))]
    kinds = {("error", "double_ownership"): 4, ("error", HOSTILE): 1}
    before = Side("before", 0, 3_600_000, Counts(5, 6, 70, 800, 9), 41, kinds, 2000, 100)
    after = Side(HOSTILE, 7_200_000, 14_400_000, Counts(85, 6, 60, 900, 9), 40, {}, 9000, 90)
    for side in (before, after):
        for at in range(20):
            side.trend.add(side.start_ms + at * 60_000, at, 2 * at, 0)
    return render_comparison(Comparison(before, after, worse, better, 43, 1, 900))


def test_the_page_says_what_has_changed() -> None:
    """The headline, sums with their rates by the hour, and how many groups are not listed."""
    html = page()
    assert "80 more errors</h2>" in html
    assert "43 groups worse, 1 better, 900 unchanged." in html
    assert '70 → 60 <b class="fine">\N{MINUS SIGN}10</b></td><td class="n">70.0 → 30.0</td>' in html
    assert "and 3 more groups, in which less has changed" in html
    assert HOSTILE not in html


@pytest.mark.clients
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_the_page_in_a_browser(tmp_path: Path, width: int) -> None:
    """It fits its screen, charts are drawn, groups are found by name, and what logs say stays text."""
    (tmp_path / "compare.html").write_text(page(), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.resize(width, phone=width < 500)
        browser.open(f"file://{tmp_path}/compare.html")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelectorAll('.trend path.turn').length") == 4
        browser.click("#find input")
        for letter in "orders":
            browser.press(letter)
        assert browser.run("[...document.querySelectorAll('.changes tbody tr')].filter(e => !e.hidden).length") == 1
        assert browser.run("document.querySelector('#find output').textContent") == "1 of 41 groups"
        assert browser.run("document.body.dataset.pwned") is None
        assert browser.errors == []
        (tmp_path / f"compare-{width}.png").write_bytes(browser.picture())
