"""Archives as inputs: the audit of one is that of its files in a folder; nothing of it is left, or gets elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow
import pytest

from fsm import cli
from fsm.errors import InputError
from fsm.spark import unpacking
from fsm.spark.audit import audit_logs
from fsm.spark.options import Options
from fsm.spark.result import create_workspace
from fsm.spark.sources import find

from .conftest import complaints, document

SCENARIOS = ("c06_maxpoll", "i_j13_dup_instance", "j07_maxpoll")


@pytest.fixture(scope="module")
def logs(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs as a bundle has them: packed ones, rotated ones of which one is missing, and some of other programs."""
    folder = tmp_path_factory.mktemp("archives") / "logs"
    for name in SCENARIOS:
        shutil.copytree(recordings / name, folder / name)
    lines = (folder / "j07_maxpoll" / "B.log").read_bytes().splitlines(keepends=True)
    for name, part in (("B.log.3.gz", lines[:90]), ("B.log.1", lines[120:300]), ("B.log", lines[300:])):
        data = b"".join(part)
        (folder / "j07_maxpoll" / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    (folder / "nginx.log").write_bytes(b"10.0.0.1 GET /index.html 200\n" * 7)
    (folder / "core").write_bytes(bytes(range(256)) * 100)
    (folder / "empty.log").write_bytes(b"")
    (folder / "cut.log.gz").write_bytes((folder / "j07_maxpoll" / "B.log.3.gz").read_bytes()[:900])
    return folder


@pytest.fixture(scope="module")
def expected(logs: Path) -> dict[str, Any]:
    """The audit of the folder."""
    return as_folder(audit([logs], logs.parent / "of-the-folder"), "", logs)


def audit(paths: list[Path], out: Path, **options: Any) -> dict[str, Any]:
    """The document of an audit in this process."""
    audit_logs(paths, out, Options(**{"master": "none", **options}))
    return document(out)


def contents(logs: Path) -> dict[str, bytes]:
    return {str(path.relative_to(logs)): path.read_bytes() for path in sorted(logs.rglob("*")) if path.is_file()}


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    """An archive in the form of its name."""
    if path.suffix == ".zst":
        path.write_bytes(pyarrow.compress(pack(path.with_suffix(""), files).read_bytes(), codec="zstd", asbytes=True))
        path.with_suffix("").unlink()
        return path
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    with tarfile.open(path, f"w:{path.suffix[1:].replace('tgz', 'gz').replace('tar', '')}") as packed:
        for name, data in files.items():
            head = tarfile.TarInfo(name)
            head.size = len(data)
            packed.addfile(head, io.BytesIO(data))
    return path


def as_folder(found: dict[str, Any], archive: str, logs: Path) -> dict[str, Any]:
    """The document with the names of files as in the folder; without the ids of findings about files, which are made of
    their names."""
    changed: dict[str, Any] = json.loads(json.dumps(found).replace(f"{archive}!/", f"{logs}/"))
    for kind in ("findings", "incidents"):
        for one in changed[kind]:
            if not one["group"]:
                assert one.pop("id")
                one.pop("findings", None)
        changed[kind].sort(key=json.dumps)
    return changed


@pytest.mark.parametrize(
    "name",
    [
        "a.tgz",
        "a.zip",
        *(pytest.param(f"a.{form}", marks=pytest.mark.deep) for form in ("tar", "tar.bz2", "tar.xz", "tar.zst")),
    ],
)
@pytest.mark.loop(1)
def test_an_archive_is_audited_as_its_folder(logs: Path, expected: dict[str, Any], tmp_path: Path, name: str) -> None:
    """Every figure and finding, and the names behind that of the archive; no hidden folder is left."""
    archive = pack(tmp_path / name, contents(logs))
    found = audit([archive], tmp_path / "out")
    assert as_folder(found, str(archive), logs) == expected
    assert f'"{archive}!/j07_maxpoll/B.log' in json.dumps(found["findings"])
    assert {path.name for path in tmp_path.iterdir()} == {name, "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        path.name for path in (logs.parent / "of-the-folder").iterdir()
    }


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_an_archive_on_spark(logs: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """The members are files of the tasks."""
    archive = pack(tmp_path / "a.tgz", contents(logs))
    assert as_folder(audit([archive], tmp_path / "out", master=Options().master), str(archive), logs) == expected


def test_an_archive_from_stdin(logs: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """The result keeps it, as it keeps any stdin."""
    data = pack(tmp_path / "a.tgz", contents(logs)).read_bytes()
    with patch.object(sys, "stdin", TextIOWrapper(BytesIO(data))):
        audit_logs([], tmp_path / "out", Options(master="none"), stdin=True)
    assert as_folder(document(tmp_path / "out"), str(tmp_path / "out" / "stdin.log"), logs) == expected
    assert (tmp_path / "out" / "stdin.log").read_bytes() == data


def test_an_archive_is_a_folder_of_clusters_and_one_cluster(logs: Path, tmp_path: Path) -> None:
    """Given by itself its folders are clusters; below a folder it is one."""
    folder = tmp_path / "bundles"
    folder.mkdir()
    archive = pack(folder / "east.tgz", contents(logs))

    def clusters(path: Path, number: str) -> set[str]:
        inputs = find([path], by_folder=True, archives=True)
        return {one.cluster for one in unpacking.unpack(inputs, tmp_path / number, by_folder=True).sources}

    assert clusters(archive, "1") == {*SCENARIOS, "east.tgz"}  # as a file directly below a folder
    assert clusters(folder, "2") == {"east.tgz"}


def test_what_an_audit_wrote_is_left_out_of_an_archive(tmp_path: Path) -> None:
    """An older result in a bundle, as below a folder."""
    files = dict.fromkeys(("out/audit.json", "out/report.html", "out/findings.parquet/x", "a.log"), b"x\n")
    archive = pack(tmp_path / "a.zip", files)
    inputs = unpacking.unpack(find([archive], archives=True), tmp_path / "work", by_folder=False)
    assert [one.name for one in inputs.sources] == [f"{archive}!/a.log"]
    assert inputs.results == (f"{archive}!/out",)


# -- hostile and damaged ones -----------------------------------------------------------------------------------


def hostile(path: Path) -> Path:
    """An archive that leads elsewhere in every way of tar."""

    def members() -> Iterator[tuple[str, bytes, bytes]]:
        yield "../evil.log", tarfile.REGTYPE, b"x\n"
        yield "a/../../evil.log", tarfile.REGTYPE, b"x\n"
        yield str(path.parent / "evil.log"), tarfile.REGTYPE, b"x\n"
        yield "link", tarfile.SYMTYPE, b""
        yield "link/evil.log", tarfile.REGTYPE, b"x\n"
        yield "evil", tarfile.LNKTYPE, b""
        yield "null", tarfile.CHRTYPE, b""
        yield "inner.tar.gz", tarfile.REGTYPE, pack(path.with_name("inner.tgz"), {"a.log": b"x\n"}).read_bytes()
        yield "caf\udce9.log", tarfile.REGTYPE, b"x\n"
        yield "a.log", tarfile.REGTYPE, b"older\n"
        yield "a.log", tarfile.REGTYPE, b"newer\n"
        yield "a.log/b.log", tarfile.REGTYPE, b"x\n"
        yield "./link", tarfile.DIRTYPE, b""
        yield "link", tarfile.REGTYPE, b"x\n"
        yield "x/" * 101 + "a.log", tarfile.REGTYPE, b"x\n"
        yield "y" * 300, tarfile.REGTYPE, b"x\n"
        yield "z\0.log", tarfile.REGTYPE, b"x\n"
        yield "./", tarfile.REGTYPE, b"x\n"

    with tarfile.open(path, "w:gz") as archive:
        for name, kind, data in members():
            head = tarfile.TarInfo(name)
            head.type, head.size, head.linkname = kind, len(data), str(path.parent)
            archive.addfile(head, io.BytesIO(data))
    return path


def test_nothing_gets_out_of_the_private_folder(tmp_path: Path) -> None:
    """Names with `..`, links, devices and impossible names are refused and counted; absolute names are below it."""
    archive = hostile(tmp_path / "a.tgz")
    before = {path.name for path in tmp_path.iterdir()}
    inputs = unpacking.unpack(find([archive], archives=True), tmp_path / "work", by_folder=False)
    assert {path.name for path in tmp_path.iterdir()} == {*before, "work"}
    assert not any(path.is_symlink() for path in (tmp_path / "work").rglob("*"))
    within = {one.name.removeprefix(f"{archive}!/"): one.path.read_bytes() for one in inputs.sources}
    del within["inner.tar.gz"]
    assert within == {"a.log": b"newer\n", "link/evil.log": b"x\n", f"{tmp_path / 'evil.log'}"[1:]: b"x\n", "z": b"x\n"}
    refused = {one.file.removeprefix(f"{archive}!/"): one.reason for one in inputs.unreadable}
    assert refused.pop("x/" * 101 + "a.log") == "below more than 100 folders"
    assert refused == {
        "../evil.log": "a name that leads out of the archive; 2 others in the archive as well",
        "link": "not a regular file; 2 others in the archive as well",
        "caf?.log": "its name is not in UTF-8",
        "a.log/b.log": "its folder is a file of the archive, too",
        "y" * 300: "its name is too long",
    }


def test_a_hard_link_to_a_member_is_no_loss(tmp_path: Path) -> None:
    """The content is read under its first name; one whose content is not in the archive is named."""
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as out:
        for name, kind, data, other in (
            ("ns/a.log", tarfile.REGTYPE, b"x\n", ""),
            ("b.log", tarfile.LNKTYPE, b"", "./ns/a.log"),
            ("c.log", tarfile.LNKTYPE, b"", "y" * 300),
            ("d.log", tarfile.LNKTYPE, b"", "ns"),
            ("e.log", tarfile.LNKTYPE, b"", "../a.tar"),
        ):
            head = tarfile.TarInfo(name)
            head.type, head.size, head.linkname = kind, len(data), other
            out.addfile(head, io.BytesIO(data))
    inputs = unpacking.unpack(find([archive], archives=True), tmp_path / "work", by_folder=False)
    assert [one.name for one in inputs.sources] == [f"{archive}!/ns/a.log"]
    refused = [(one.file, one.reason) for one in inputs.unreadable]
    assert refused == [(f"{archive}!/c.log", "not a regular file; 2 others in the archive as well")]


def test_names_with_control_characters_are_escaped(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name of a member is neither a line of its own nor a command to the terminal."""
    files = {f"a\nfsm: fine\x1b[2J{path}": data for path, data in contents(logs / SCENARIOS[2]).items()}
    archive = pack(tmp_path / "a.tgz", {**files, "core\nfsm: fine\x1b[2J": bytes(range(256))})
    assert cli.main(["audit", str(archive), "-o", str(tmp_path / "out"), "--master", "none"]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert not any(line.startswith("fsm: fine") for line in said.splitlines())
    assert f"{archive}!/core\\x0afsm: fine\\x1b[2J (binary file)\n" in said
    empty = pack(tmp_path / "b.tgz", {"a\n\x1b[2J.log": b""})
    said = refusal(capsys, "audit", empty, "-o", tmp_path / "out", "--master", "none")
    assert f"{empty}!/a \\x1b[2J.log: is empty" in said


def test_an_archive_in_an_archive_is_one_line(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, everything else is audited, and the verdict is that not enough was understood."""
    inner = pack(tmp_path / "inner.zip", {"a.log": b"x\n"}).read_bytes()
    archive = pack(tmp_path / "a.tgz", {**contents(logs / SCENARIOS[0]), "inner.zip": inner})
    command = ["audit", str(archive), "-o", str(tmp_path / "out"), "--master", "none"]
    assert cli.main(command) == 2
    told = capsys.readouterr()
    assert f"not read, or not to the end: {archive}!/inner.zip (an archive of zip; unpack it first)\n" in told.out
    assert "not enough was understood" in told.err
    assert cli.main([*command, "--min-understood", "0"]) == 1


@pytest.mark.parametrize(
    "packed",
    [("a.log", 5, "compressed more than 3 times; unpack it first"), ("inner.zip", 1, "an archive of zip; ")],
)
def test_what_is_compressed_once_more_is_not_passed_over(
    packed: tuple[str, int, str], logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of many layers was read as a text that tells nothing."""
    name, layers, why = packed
    folder = tmp_path / "logs"
    folder.mkdir()
    for path, data in contents(logs / SCENARIOS[0]).items():
        (folder / path).write_bytes(data)
    data = pack(tmp_path / name, {"a.log": b"x\n"}).read_bytes() if name.endswith(".zip") else b"x\n"
    for _ in range(layers):
        data = gzip.compress(data)
    (folder / f"{name}.gz").write_bytes(data)
    command = ["audit", str(folder), "-o", str(tmp_path / "out"), "--master", "none"]
    assert cli.main(command) == 2
    told = capsys.readouterr()
    assert f"not read, or not to the end: {folder}/{name}.gz ({why}" in told.out
    assert "not enough was understood" in told.err
    assert cli.main([*command, "--min-understood", "0"]) == 1


def test_a_truncated_archive_is_audited_as_far_as_it_goes(logs: Path, tmp_path: Path) -> None:
    """The archive and the file in which it ends are named."""
    whole = pack(tmp_path / "whole.tgz", contents(logs)).read_bytes()
    archive = tmp_path / "a.tgz"
    archive.write_bytes(whole[: 2 * len(whole) // 3])
    found = audit([archive], tmp_path / "out")
    cut = {file: reason for file, reason in found["inputs"]["unreadable"] if reason.startswith("EOFError: ")}
    del cut[f"{archive}!/cut.log.gz"]
    del cut[str(archive)]
    assert [file.partition("!/")[0] for file in cut] == [str(archive)]
    summaries = [one["summary"] for one in found["findings"]]
    assert any(one.startswith(f"{archive} was not read to its end: EOFError: Compressed file") for one in summaries)
    assert found["groups"]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What `fsm` prints that refuses its input: one line on stderr."""
    assert cli.main([str(one) for one in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    problem = complaints(printed.err)
    assert problem.count("\n") == 1
    return problem


def test_archives_without_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it, nothing but folders, nothing that can be read: one line with the reason."""
    pack(tmp_path / "empty.zip", {"a.log": b""})
    with tarfile.open(tmp_path / "folder.tgz", "w:gz") as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    false = tarfile.TarInfo("a.log")
    false.size = -512
    (tmp_path / "false.tar").write_bytes(false.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    for name in ("nothing.tar", "nothing.tgz", "nothing.zip"):
        pack(tmp_path / name, {})
    secret = bytearray(pack(tmp_path / "secret.zip", {"a.log": b"x\n", "b.log": b"y\n"}).read_bytes())
    for place in (secret.find(b"PK\1\2"), secret.rfind(b"PK\1\2")):
        secret[place + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(secret)
    whole = pack(tmp_path / "cut.tgz", {"a.log": b"[2026-11-21 07:55:00,123] INFO a\n" * 900}).read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[:-30])
    whole = pack(tmp_path / "cut.zip", {"a.log": b"x\n"}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-30])
    expected = {
        "empty.zip": "empty.zip!/a.log: is empty",
        "false.tar": "false.tar: damaged: a header that cannot be read",
        "folder.tgz": "folder.tgz: an archive without files",
        "nothing.tar": "nothing.tar: an archive without files",
        "nothing.tgz": "nothing.tgz: an archive without files",
        "nothing.zip": "nothing.zip: an archive without files",
        "secret.zip": "secret.zip!/a.log: encrypted; 1 other in the archive as well",
        "cut.tgz": "cut.tgz: cannot be read: EOFError: ",
        "cut.zip": "cut.zip: an archive of zip; the list of files at its end cannot be read (File is not a zip ",
    }
    for name, problem in expected.items():
        assert problem in refusal(capsys, "audit", tmp_path / name, "-o", tmp_path / "out", "--master", "none")
    assert {path.name for path in tmp_path.iterdir()} == {*expected}


def test_an_archive_takes_no_more_than_its_share_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb ends with one line: by its size, or by the number of its files and folders."""
    archive = pack(tmp_path / "a.tgz", {"a/b/c.log": bytes(1 << 20), "a/b/d.log": b"x\n"})
    inputs = find([archive], archives=True)
    free = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: free)
        with pytest.raises(InputError, match="its files take more than half of the free space"):
            unpacking.unpack(inputs, tmp_path / "1", by_folder=False)
    monkeypatch.setattr(unpacking, "MOST_FILES", 4)
    assert len(unpacking.unpack(inputs, tmp_path / "2", by_folder=False).sources) == 2
    monkeypatch.setattr(unpacking, "MOST_FILES", 3)
    with pytest.raises(InputError, match="it holds more than 3 files and folders"):
        unpacking.unpack(inputs, tmp_path / "3", by_folder=False)


def test_an_interrupted_audit_leaves_no_member(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal is raised as `KeyboardInterrupt`, in the midst of an archive, or behind it."""
    archive = pack(tmp_path / "a.zip", contents(logs))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for target in ("fsm.spark.unpacking.os.utime", "fsm.spark.sources.pack_bins"):
        with monkeypatch.context() as patched:
            patched.setattr(target, interrupt)
            with pytest.raises(KeyboardInterrupt):
                audit([archive], tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_what_a_killed_audit_left_is_not_read_and_removed(tmp_path: Path) -> None:
    """Nobody takes its members for logs; the next audit of the same result removes them, and of no other."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_bytes(b"x\n")
    left = []
    for out in (logs / "out", logs / "other"):
        with create_workspace(out) as work:  # removed when the block ends, unlike by SIGKILL
            (work / "unpacked").mkdir()
            (work / "unpacked" / "member.log").write_bytes(b"x\n")
            shutil.copytree(work, tmp_path / work.name)
            left.append(logs / work.name)
            assert [one.name for one in find([logs]).sources] == [str(logs / "a.log")]
    for path in left:
        shutil.move(tmp_path / path.name, path)
    inputs = find([logs])
    assert [one.name for one in inputs.sources] == [str(logs / "a.log")]
    assert inputs.results == tuple(sorted(map(str, left)))
    with create_workspace(logs / "out"):
        assert [path.exists() for path in left] == [False, True]


def test_an_archive_is_neither_followed_nor_drawn(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not grow, and a timeline has no place for its files."""
    archive = pack(tmp_path / "a.tgz", contents(logs))
    follow = refusal(capsys, "audit", archive, "-o", tmp_path / "out", "--follow", "--master", "none")
    assert f"{archive}: is an archive, which does not grow; audit it without --follow" in follow
    draw = refusal(capsys, "draw", "--timeline", archive, "-o", tmp_path / "out")
    assert f"{archive}: an archive; unpack it first" in draw
