"""What is on the disk: logs that are torn, replacements that were not finished, folders that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_broker import Served
from serve_scene import Scene

from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.serve.effects import Append, Replace
from fsm.serve.store import Store

PARTITION = "__consumer_offsets-3"
"""Of the group `g`: its hash code is 103, of 50 partitions."""


def beat(epoch: int, member_id: str = "m-1") -> m.ConsumerGroupHeartbeatRequest:
    if epoch:
        return m.ConsumerGroupHeartbeatRequest("g", member_id, epoch)
    wants = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("foo",), "topic_partitions": ()}
    return m.ConsumerGroupHeartbeatRequest("g", member_id, 0, **wants)  # type: ignore[arg-type]


def commit(offset: int) -> m.OffsetCommitRequest:
    place = m.OffsetCommitRequestPartition(0, offset)
    return m.OffsetCommitRequest("g", topics=(m.OffsetCommitRequestTopic("foo", partitions=(place,)),))


def committed(kept: dict[str, bytes]) -> int:
    """What brokers that start with these logs say was committed."""
    asked = m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup("g"),))
    topics = Scene(kept=kept).client().ask(asked, 8).groups[0].topics
    return topics[0].partitions[0].committed_offset if topics else -1


def test_a_log_that_is_torn_at_any_byte_ends_with_the_batch_before(tmp_path: Path) -> None:
    scene = Scene(kept={})
    client = scene.client()
    assert client.ask(commit(41), 9).errors == ()
    before = len(scene.kept[PARTITION])
    assert client.ask(commit(42), 9).errors == ()
    whole = scene.kept[PARTITION]
    assert committed(scene.kept) == 42
    for size in range(before, len(whole)):
        for torn in (whole[:size], whole[:size] + bytes(len(whole) - size), whole[:size] + bytes(4096)):
            (tmp_path / f"{PARTITION}.log").write_bytes(torn)
            (tmp_path / "metadata.log").write_bytes(scene.kept["metadata"])
            store = Store(tmp_path)
            kept = store.read()
            expected = whole[: len(whole) if torn.startswith(whole) else before]  # it may end with zeros
            assert kept[PARTITION] == expected == (tmp_path / f"{PARTITION}.log").read_bytes(), size
            store.close()
    assert committed({**kept, PARTITION: whole[:before]}) == 41


def test_a_torn_log_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    scene = Scene(kept={})
    scene.client().ask(commit(41), 9)
    whole = scene.kept[PARTITION]
    (tmp_path / f"{PARTITION}.log").write_bytes(whole + whole[:30])
    store = Store(tmp_path)
    again = Scene(kept=store.read())
    again.client().ask(commit(43), 9)
    store.write(Append(PARTITION, again.kept[PARTITION][len(whole) :]))
    store.sync()
    store.close()
    assert committed(Store(tmp_path).read()) == 43


def test_a_replacement_that_was_not_finished_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(Replace("metadata", b'{"topics": [], "groups": {}}'))
    store.close()
    for rest in (b"", b"{", b'{"topics": '):
        (tmp_path / "metadata.new").write_bytes(rest)
        store = Store(tmp_path)
        assert store.read() == {"metadata": b'{"topics": [], "groups": {}}'}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "metadata.log"]
        store.close()


def test_what_comes_after_a_replacement_is_behind_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(Append("a", b"1"))
    store.write(Replace("a", b"2"))
    store.write(Append("a", b"3"))
    store.sync()
    assert store.read() == {"a": b"23"}
    store.close()


def test_what_no_broker_has_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata.log").write_text("{}")
    served = Served("--data", str(tmp_path))
    code, errors = served.end()
    assert (code, errors.count("\n")) == (2, 1)
    assert "metadata: was not written by fsm serve" in errors


@pytest.mark.parametrize("folder", ["/proc/serve", "/dev/null", "/dev/null/serve"])
def test_a_folder_that_cannot_be_used(folder: str) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        Store(Path(folder))
    code, errors = Served("--data", folder).end()
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("fsm serve:") or "cannot be used" in errors


def test_two_brokers_on_one_folder(tmp_path: Path) -> None:
    first = Served("--data", str(tmp_path))
    try:
        code, errors = Served("--data", str(tmp_path)).end()
        assert (code, errors.count("\n")) == (2, 1)
        assert "is in use by another broker" in errors
    finally:
        first.kill()
    again = Served("--data", str(tmp_path))
    assert again.port
    again.kill()


def test_a_log_that_is_damaged_in_its_middle_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    scene = Scene(kept={})
    client = scene.client()
    for offset in range(5):
        client.ask(commit(offset), 9)
    data = bytearray(scene.kept[PARTITION])
    data[len(data) // 2] ^= 1
    (tmp_path / f"{PARTITION}.log").write_bytes(data)
    with pytest.raises(InputError, match=f"{PARTITION}.log: damaged at byte"):
        Store(tmp_path).read()
    assert (tmp_path / f"{PARTITION}.log").read_bytes() == data


def test_what_is_cut_off_is_told(tmp_path: Path) -> None:
    scene = Scene(kept={})
    scene.client().ask(commit(1), 9)
    (tmp_path / f"{PARTITION}.log").write_bytes(scene.kept[PARTITION] + b"torn")
    store = Store(tmp_path)
    store.read()
    assert store.cuts == {str(tmp_path / f"{PARTITION}.log"): 4}
