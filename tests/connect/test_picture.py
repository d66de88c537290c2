"""The picture of a bounced worker and its delay, simulated and recorded."""

from __future__ import annotations

import tarfile
from pathlib import Path
from xml.etree import ElementTree as ET

from connect_scene import A1, B

from fsm.audit.connect_picture import of_logs
from fsm.audit.local import Options, audit_files, read_files
from fsm.connect.cluster import Cluster
from fsm.connect.config import ConnectConfig
from fsm.connect.picture import Delay, Picture, delays, of_cluster, svg

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
    return of_cluster(cluster, start_ms=30_000)


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
    assert [mark.text.split(",")[0] for mark in picture.marks] == ["round 6", "round 7", "round 8"]


def test_a_picture_is_well_formed_and_always_the_same() -> None:
    """A row for each unit, a bar for each time it ran, the delay as ground; same cluster, same bytes."""
    drawn = svg(bounced(), "W2 bounces <&>")
    root = ET.fromstring(drawn)  # noqa: S314
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("scheduled delay, 60.0 s" in (text or "") for text in titles) == 1
    assert {f"{unit} on W2" for unit in dark(bounced(), bounced().delays[0])} <= set(titles)
    assert drawn == svg(bounced(), "W2 bounces <&>")


def test_a_recorded_bounce_shows_the_same(tmp_path: Path) -> None:
    """W2 of a real cluster leaves; its connector and its task wait for 6 s."""
    with tarfile.open(ARCHIVE) as archive:
        wanted = [m for m in archive.getmembers() if m.name.startswith("s02_leave/")]
        archive.extractall(tmp_path, wanted, filter="data")
    logs = sorted((tmp_path / "s02_leave").glob("W*.log"))
    rows = audit_files(logs).rows["connect-s02_leave"]
    picture = of_logs(rows.intervals, read_files(logs, Options()).seen)
    (delay,) = picture.delays
    assert 6_000 <= delay.end_ms - delay.start_ms <= 8_000
    assert dark(picture, delay) == {A1, B}
    assert ET.fromstring(svg(picture, "s02_leave")).tag.endswith("svg")  # noqa: S314


def test_delays_of_rounds() -> None:
    """A delay lasts from the first round that announces it to the first that does not; one that never ends is none."""
    assert delays([(0, 0), (10, 60), (30, 40), (70, 0), (80, 5)]) == (Delay(10, 70),)
