"""The picture of a bounced worker and its delay, simulated and recorded."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from connect_scene import A1, B
from recordings import opened

from fsm.audit.limits import Limits
from fsm.audit.picture import of_files, shipped_pictures
from fsm.cli import main
from fsm.connect.simulation.cluster import Cluster
from fsm.connect.units import Unit
from fsm.connect.worker.config import ConnectConfig
from fsm.render.timeline.ownership import TWICE_MS, Bar, Delay, Mark, Picture, Stay, delays, svg

ARCHIVE = Path(__file__).parent / "recordings.tar.xz"


def bounced() -> Picture:
    """W2 leaves at 40 s and is back 30 s later, within a delay of 60 s."""
    cluster = Cluster(ConnectConfig("g", scheduled_rebalance_max_delay_ms=60_000))
    for name in ("W1", "W2", "W3"):
        cluster.start(name)
        cluster.run_for(100)
    cluster.run_for(8_000)
    cluster.create("A", tasks=2)
    cluster.run_for(5_000)
    cluster.create("B", tasks=1)
    cluster.run_for(40_000 - cluster.now_ms)
    cluster.bounce("W2", away_ms=30_000)
    cluster.run_for(90_000)
    return cluster.picture(start_ms=30_000)


def dark(picture: Picture, delay: Delay) -> set[object]:
    """Units that ran nowhere for most of a delay."""
    ran = {
        bar.unit for bar in picture.bars if bar.start_ms < delay.end_ms - 1_000 and bar.end_ms > delay.start_ms + 3_000
    }
    return {bar.unit for bar in picture.bars} - ran


def test_a_simulated_bounce_shows_its_delay_and_what_waited() -> None:
    """One delay of a minute, begun when the departure was noticed; the units of W2 are dark for it and return to W2."""
    picture = bounced()
    (delay,) = picture.delays
    assert 60_000 <= delay.end_ms - delay.start_ms <= 60_010
    waited = dark(picture, delay)
    assert len(waited) == 2
    assert {bar.worker for bar in picture.bars if bar.unit in waited} == {"W2"}
    assert [mark.text for mark in picture.marks if mark.at_ms >= picture.start_ms] == [
        "generation 6: W1 leads, delay 60 s",
        "generation 7: W1 leads, delay 30 s",
        "generation 8: W1 leads",
    ]
    assert [stay.end_ms - stay.start_ms for stay in picture.stays if stay.worker == "W2"] == [39_900, 60_000]


def texts(drawn: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314


def test_a_picture_is_well_formed_and_always_the_same() -> None:
    """A row for each unit, a bar for each time it ran, the delay as ground; same cluster, same bytes."""
    drawn = svg(bounced(), "W2 bounces <&>")
    root = ET.fromstring(drawn)  # noqa: S314
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("scheduled delay, 60 s") == 1
    assert {f"{unit} on W2" for unit in dark(bounced(), bounced().delays[0])} <= set(titles)
    assert drawn == svg(bounced(), "W2 bounces <&>")


def test_a_picture_says_what_it_shows() -> None:
    """Title, legend, rounds with generation, leader and delay, rows of workers and units, the axis in seconds."""
    shown = texts(svg(bounced(), "W2 bounces <&>"))
    assert shown[0] == "W2 bounces <&>"
    assert {"W1", "W2", "W3", "scheduled delay: lost work waits", "leads from here on", "scheduled delay, 60 s"} <= set(
        shown
    )
    assert {"generation 6: W1 leads, delay 60 s", "A", "A-0", "A-1", "B", "B-0", "20 s", "80 s"} <= set(shown)
    assert "generation 5: W1 leads" not in shown


def test_two_owners_at_once_are_marked_if_that_lasts() -> None:
    """Of different workers, each time by itself; a shorter time may be a difference of clocks."""
    held = (
        ("W1", 0, 10_000),
        ("W2", 9_950, 20_000),
        ("W3", 19_000, 25_000),
        ("W3", 24_000, 40_000),
        ("W1", 30_000, 31_000),
    )
    bars = tuple(Bar(Unit("A"), *one) for one in held)
    drawn = svg(Picture(0, 40_000, bars, (), ()), "x")
    titles = [title.text or "" for title in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314
    assert [title for title in titles if "two owners" in title] == ["two owners at once, 1 s"] * 2
    assert "two owners at once" in texts(drawn)
    assert "two owners at once" not in texts(svg(Picture(0, 40_000, bars[:2], (), ()), "x"))


def test_the_axis_says_when_it_begins() -> None:
    """If instants are real ones."""
    picture = Picture(
        1_795_247_702_500, 1_795_247_706_521, (Bar(Unit("A"), "W1", 1_795_247_702_500, 1_795_247_706_521),)
    )
    assert "0 s is 2026-11-21 07:55:02.500 UTC" in texts(svg(picture, "x", dated=True))
    assert not any("UTC" in text for text in texts(svg(picture, "x")))


def test_flags_of_rounds_at_one_time_stand_below_each_other() -> None:
    """Four rounds within 30 ms of ten seconds: four flags, one below the other; the last ones hang to the left."""
    marks = tuple(Mark(9_900 + 10 * n, n, "W1", 0) for n in range(4))
    picture = Picture(0, 10_000, (Bar(Unit("A"), "W1", 0, 10_000),), (), marks, (Stay("W1", 0, 10_000),))
    root = ET.fromstring(svg(picture, "x"))  # noqa: S314
    flags = [e for e in root.iter("{http://www.w3.org/2000/svg}text") if "generation" in "".join(e.itertext())]
    assert len({flag.get("y") for flag in flags}) == 4
    assert all(float(flag.get("x", "0")) < 1_000 for flag in flags)


def test_rounds_too_close_to_be_told_apart_are_one_line() -> None:
    """A loop of five hundred rounds within a second of ten minutes: one line that says how many it stands for."""
    marks = tuple(Mark(1_000 + 2 * n, n, "W1", 0) for n in range(500))
    root = ET.fromstring(svg(Picture(0, 600_000, (Bar(Unit("A"), "W1", 0, 600_000),), (), marks), "x"))  # noqa: S314
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert [title for title in titles if "rounds" in title] == ["generation 0: W1 leads; 499 more rounds"]


def test_a_long_quiet_picture_is_drawn_short_where_nothing_happens() -> None:
    """Two units an hour apart: the hour is a narrow stretch that says how long it is."""
    bars = (Bar(Unit("A"), "W1", 0, 5_000), Bar(Unit("B"), "W2", 3_600_000, 3_605_000))
    shown = texts(svg(Picture(0, 3_605_000, bars), "x"))
    assert [text for text in shown if text.startswith("…")] == ["… 3591 s …"]


def test_a_close_up_shows_what_is_around_the_delays() -> None:
    """Ten seconds before and after; a picture without any delay stays whole."""
    picture = bounced()
    near = picture.close_up(10_000)
    assert (near.start_ms, near.end_ms) == (picture.delays[0].start_ms - 10_000, picture.delays[0].end_ms + 10_000)
    quiet = picture._replace(delays=())
    assert quiet.close_up(10_000) == quiet


def extracted(tmp_path: Path, scenario: str) -> Path:
    with opened(ARCHIVE) as archive:
        wanted = [m for m in archive.getmembers() if m.name.startswith(f"{scenario}/")]
        archive.extractall(tmp_path, wanted)
    return tmp_path / scenario


def recorded(tmp_path: Path, scenario: str) -> Picture:
    (picture,) = of_files(sorted(extracted(tmp_path, scenario).glob("W*.log"))).values()
    return picture


def test_a_recorded_departure_shows_the_same(tmp_path: Path) -> None:
    """W2 of a real cluster leaves; its connector and its task wait for 6 s. Its own consumers are no workers."""
    picture = recorded(tmp_path, "s02_leave")
    (delay,) = picture.delays
    assert 6_000 <= delay.end_ms - delay.start_ms <= 8_000
    assert dark(picture, delay) == {A1, B}
    assert len(picture.workers) == 3
    assert ET.fromstring(svg(picture, "s02_leave")).tag.endswith("svg")  # noqa: S314


def test_a_recorded_leader_that_bounces_hands_over_its_mark(tmp_path: Path) -> None:
    """Scenario 5 recorded: who leads changes once, and the new leader forgets the delay."""
    marks = recorded(tmp_path, "s05_leader_bounces").marks
    changes = [(a, b) for a, b in pairwise(marks) if a.leader != b.leader]
    assert len(changes) == 1
    assert (changes[0][0].delay_ms > 0, changes[0][1].delay_ms) == (True, 0)


def test_the_recorded_bounce_that_comes_with_the_package() -> None:
    """Three workers by their addresses, one delay of 9 s, and the generations that began, went on with and ended it."""
    ((name, content),) = shipped_pictures()
    shown = texts(content.decode())
    assert name == "connect-bounced-worker-recorded.svg"
    assert {"127.0.0.1:38083", "127.0.0.1:38084", "127.0.0.1:38085", "scheduled delay, 9 s"} <= set(shown)
    assert [text for text in shown if text.startswith("generation")] == [
        "generation 8: 127.0.0.1:38083 leads, delay 9 s",
        "generation 9: 127.0.0.1:38083 leads, delay 5.9 s",
        "generation 10: 127.0.0.1:38083 leads",
    ]


def test_a_command_draws_the_logs_of_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fsm draw --timeline`: a file for each group, named after it; what holds no worker's line is refused."""
    logs = [str(log) for log in sorted(extracted(tmp_path, "s02_leave").glob("W*.log"))]
    assert main(["draw", "--timeline", *logs, "-o", str(tmp_path / "out"), "--json"]) == 0
    target = tmp_path / "out" / "connect-s02_leave.svg"
    assert json.loads(capsys.readouterr().out) == {"files": [str(target)]}
    assert "scheduled delay" in target.read_text()
    (tmp_path / "other.log").write_text("nothing\n")
    for arguments, error in (
        (
            ["--timeline", str(tmp_path / "other.log")],
            "other.log: no line of a consumer or a Connect worker; give the logs",
        ),
        (["--timeline", str(tmp_path / "gone.log")], "gone.log: no such file or folder"),
        (["--timeline", *logs, "--format", "png"], "draw: a timeline is drawn as svg; leave out --format"),
        (["connect-worker", "--timeline", *logs], "draw: --timeline draws logs alone; leave out --check and"),
    ):
        assert main(["draw", *arguments, "-o", str(tmp_path)]) == 2
        assert error in capsys.readouterr().err


def test_a_folder_of_logs_is_drawn_as_its_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--timeline DIR` takes every log below it and passes over, with a line, what is none; named, that is refused."""
    folder = extracted(tmp_path, "s02_leave")
    logs = sorted(map(str, folder.glob("W*.log")))
    below = tmp_path / "logs"
    for log in logs:
        target = below / Path(log).stem / "worker.log"
        target.parent.mkdir(parents=True)
        target.write_bytes(Path(log).read_bytes())
    assert main(["draw", "--timeline", *logs, "-o", str(tmp_path / "files")]) == 0
    capsys.readouterr()
    image = below / "a.png"
    image.write_bytes(bytes(range(256)))
    assert main(["draw", "--timeline", str(below), "-o", str(tmp_path / "folder")]) == 0
    assert capsys.readouterr().err == f"fsm: {image}: passed over: binary file\n"
    hostile = image.rename(below / "a\x1b[2J\nb.png")
    assert main(["draw", "--timeline", str(below), "-o", str(tmp_path / "folder")]) == 0
    assert capsys.readouterr().err == rf"fsm: {below}/a\x1b[2J b.png: passed over: binary file" + "\n"
    hostile.rename(image)
    name = "connect-s02_leave.svg"
    assert (tmp_path / "folder" / name).read_bytes() == (tmp_path / "files" / name).read_bytes()
    assert main(["draw", "--timeline", *logs, str(image), "-o", str(tmp_path / "named")]) == 2
    assert capsys.readouterr().err == f"fsm: {image}: binary file; give files of logs\n"


def test_delays_of_rounds() -> None:
    """A delay lasts from the first round that announces it to the first that does not; the last one may not be over."""
    assert delays([(0, 0), (10, 60), (30, 40), (70, 0), (80, 5)], end_ms=90) == (Delay(10, 70), Delay(80, 90))


@pytest.mark.parametrize("lasts_ms", [5, 60, 250, 400, 1_500, 9_000, 120_000])
def test_no_two_ticks_have_one_label(lasts_ms: int) -> None:
    """However short the run, the labels of the axis tell its ticks apart, and say their times."""
    labels = re.findall(
        r'<text class="mid"[^>]*>([\d.]+) s<', svg(Picture(0, lasts_ms, (Bar(B, "W1", 0, lasts_ms),)), "short")
    )
    assert len(labels) >= 4
    assert len(set(labels)) == len(labels)
    first, second, third = (round(float(label) * 1000) for label in labels[:3])
    assert second - first == third - second


def test_two_owners_are_marked_from_the_tolerance_of_the_audit_on() -> None:
    assert Limits().tolerance_ms == TWICE_MS
