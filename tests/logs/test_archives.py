"""Members of tar and zip archives, as each tool writes them, damaged and hostile."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from fsm.logs.reading import archives
from fsm.logs.reading.archives import Member, read_members
from fsm.logs.reading.opening import READ_ERRORS, is_archive

MODIFIED_S = 1_795_000_000
TEXT = b"".join(b"[2026-11-21 07:55:%02d,123] INFO line %d\n" % (n % 60, n) for n in range(3000))
FILES = {
    "ns/pod/app.log": TEXT,
    "ns/pod/app.log.1.gz": gzip.compress(TEXT, mtime=0),
    "ns/empty.log": b"",
    "ns/" + "a" * 90 + "/" + "b" * 90 + "/łódź.log": b"x\n",
    "short.log": b"short\n",
}


def pack_tar(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        archive.addfile(describe("ns", kind=tarfile.DIRTYPE))
        for name, data in files.items():
            archive.addfile(describe(name, len(data)), io.BytesIO(data))
    return out.getvalue()


def describe(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """The header of a member."""
    head = tarfile.TarInfo(name)
    head.size, head.type, head.mtime = size, kind, MODIFIED_S
    return head


class Pipe(io.RawIOBase):
    """A file in which a writer cannot return to the head of a member."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += bytes(data)
        return len(data)


def pack_zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, out: Any = None) -> bytes:
    out = out or io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("ns/", b"")
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 18, 11, 6, 40)), data, method)
    return out.data if isinstance(out, Pipe) else out.getvalue()


FORMS: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "pax": pack_tar,
    "gnu": lambda files: pack_tar(files, tarfile.GNU_FORMAT),
    "tar.gz": lambda files: gzip.compress(pack_tar(files)),
    "tar.bz2": lambda files: bz2.compress(pack_tar(files)),
    "tar.xz": lambda files: lzma.compress(pack_tar(files)),
    "tar.zst": lambda files: pyarrow.compress(pack_tar(files), codec="zstd", asbytes=True),
    "zip": pack_zip,
    "zip stored": lambda files: pack_zip(files, zipfile.ZIP_STORED),
    "zip to a pipe": lambda files: pack_zip(files, out=Pipe()),
    "zip stored to a pipe": lambda files: pack_zip(files, zipfile.ZIP_STORED, Pipe()),
}


def read(data: bytes, folder: Path) -> tuple[list[Member], dict[str, bytes], Exception | None]:
    """The members, the content by name as far as it is read, and what ended the archive."""
    path = folder / "archive"
    path.write_bytes(data)
    members: list[Member] = []
    content: dict[str, bytes] = {}
    try:
        for member in read_members(str(path)):
            members.append(member)
            content[member.name] = b"".join(iter(lambda one=member.content: one.read(1 << 16), b""))
    except READ_ERRORS as problem:
        return members, content, problem
    return members, content, None


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_archive(tmp_path: Path, form: str) -> None:
    """Names, contents and times of the members, whichever tool wrote them."""
    members, content, problem = read(FORMS[form](FILES), tmp_path)
    assert (content, problem) == (FILES, None)
    assert {member.modified_s for member in members} == {MODIFIED_S}
    assert not any(member.refusal or member.content.problem for member in members)


@pytest.mark.parametrize("form", FORMS)
def test_content_that_is_not_wanted_is_skipped(tmp_path: Path, form: str) -> None:
    """The next member is found, whether nothing, the beginning or everything of one is read."""
    (tmp_path / "archive").write_bytes(FORMS[form](FILES))
    names = []
    for number, member in enumerate(read_members(str(tmp_path / "archive"))):
        names.append(member.name)
        if number % 2:
            member.content.read(100)
    assert names == list(FILES)


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("zip")])
def test_a_tar_is_read_up_to_the_damage(tmp_path: Path, form: str) -> None:
    """Wherever it is cut, what stands before is read, and the end is a problem."""
    data = FORMS[form](FILES)
    last = len(data.rstrip(b"\0"))
    most = b""
    for end in (*range(300, last, last // 30), last - 1):
        _, content, problem = read(data[:end], tmp_path)
        assert problem is not None, end
        for name, found in content.items():
            assert FILES[name].startswith(found), end
        most = max(most, content.get("ns/pod/app.log", b""), key=len)
    assert most == TEXT


def test_a_tar_of_before_posix(tmp_path: Path) -> None:
    """It has no magic bytes; its checksum tells it."""
    head = bytearray(describe("a.log", len(TEXT)).tobuf(tarfile.USTAR_FORMAT))
    head[257:265] = bytes(8)
    data = seal(head) + TEXT + bytes(-len(TEXT) % 512 + 1024)
    assert read(data, tmp_path)[1:] == ({"a.log": TEXT}, None)
    assert is_archive(str(tmp_path / "archive"))
    data = data.replace(b"a.log", b"b.log", 1)
    (tmp_path / "archive").write_bytes(data)
    assert not is_archive(str(tmp_path / "archive"))


def seal(head: bytearray) -> bytes:
    """The header with the checksum of its bytes."""
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def test_damage_amid_a_tar_is_not_its_end(tmp_path: Path) -> None:
    """Members before a damaged header are read; `tarfile` would end there without a word."""
    data = bytearray(pack_tar({"a.log": b"a\n", "b.log": b"b\n", "c.log": b"c\n"}))
    data[data.find(b"b.log")] ^= 1
    _, content, problem = read(bytes(data), tmp_path)
    assert (content, str(problem)) == ({"a.log": b"a\n"}, "damaged: a header that cannot be read")


def test_a_checksum_behind_the_last_member_is_looked_at(tmp_path: Path) -> None:
    """Of the gzip around a tar."""
    data = bytearray(gzip.compress(pack_tar({"a.log": TEXT})))
    data[-6] ^= 1
    _, content, problem = read(bytes(data), tmp_path)
    assert content == {"a.log": TEXT}
    assert "CRC check failed" in str(problem)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_member_of_a_zip_with_a_wrong_checksum_is_read_to_its_end(method: int, tmp_path: Path) -> None:
    """What the checksum is of may be whole; that it is wrong is said."""
    data = bytearray(pack_zip({"a.log": TEXT}, method))
    data[data.rfind(b"PK\x01\x02") + 16] ^= 1
    data[14] ^= 1
    (member,), content, problem = read(bytes(data), tmp_path)
    assert (content, problem) == ({"a.log": TEXT}, None)
    assert "Bad CRC-32" in str(member.content.problem)


def test_what_is_behind_the_end_mark_of_a_tar_is_a_problem(tmp_path: Path) -> None:
    """Several archives in one file: the others are not read, which is said."""
    for form in ("pax", "tar.gz", "tar.zst"):
        _, content, problem = read(FORMS[form]({"a.log": b"a\n"}) + FORMS[form]({"b.log": b"b\n"}), tmp_path)
        assert content == {"a.log": b"a\n"}
        assert str(problem) == "what is behind its end mark was not read, as in several archives in one file"


def test_a_zip_without_its_list_of_files_is_refused(tmp_path: Path) -> None:
    """One that is cut off, and one that is compressed once more: one line, with what to do."""
    whole = pack_zip(FILES)
    for data in (whole[:-30], whole[: len(whole) // 2], gzip.compress(whole)):
        _, content, problem = read(data, tmp_path)
        assert content == {}
        said = "an archive of zip; the list of files at its end cannot be read (File is not a zip file); "
        assert str(problem) == said + "unpack or repair it first"


def test_the_list_of_files_of_a_zip_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`zipfile` holds all of it."""
    monkeypatch.setattr(archives, "_LONGEST_LIST", 1 << 20)
    whole = pack_zip({"a.log": b"a\n"})
    start = whole.find(b"PK\1\2")
    end = bytearray(whole[-22:])
    end[12:16] = (2 << 20).to_bytes(4, "little")
    _, content, problem = read(whole[:start] + bytes(2 << 20) + bytes(end), tmp_path)
    assert (content, str(problem)) == ({}, "the list of its files has more than 1 MB; unpack what is needed of it")


def test_no_bytes_break_a_reader(tmp_path: Path) -> None:
    """Changed bytes change names and contents, or are a problem."""
    chance = random.Random(5)  # noqa: S311
    small = {name: data[:300] for name, data in FILES.items()}
    for form in ("pax", "gnu", "zip", "zip to a pipe", "zip stored to a pipe"):
        whole = FORMS[form](small)
        for _ in range(30):
            data = bytearray(whole)
            for _ in range(chance.choice((1, 3, 20))):
                data[chance.randrange(4, len(data))] = chance.choice((0, 1, 0x80, 0xFF, ord("9"), ord("-")))
            _, content, _ = read(bytes(data), tmp_path)
            assert sum(map(len, content.values())) < 100_000


def header(kind: bytes, data: bytes) -> bytes:
    """A header with data."""
    return describe("h", len(data), kind).tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


LONG = "damaged: headers of more than 64 KB"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (header(b"x", b"1" * (2 << 20)), LONG),
        (header(b"L", b"a" * (2 << 20)), LONG),
        (header(b"x", b"9 a=1111\n") * 200, LONG),
        (
            header(b"x", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n")
            + header(b"0", b"99999999\n" + b"1\n" * 50_000),
            LONG,
        ),
        (
            header(b"x", b"9" * 5000 + b" a=1\n"),
            "damaged: ",
        ),
        (header(b"x", b"0 path=a\n"), "damaged: "),
        (header(b"x", b"15 size=-99999\n") + header(b"0", b"x"), "damaged: a header with a false length"),
    ],
)
def test_headers_of_a_tar_are_bounded(tmp_path: Path, headers: bytes, said: str) -> None:
    """Neither long ones, nor many, nor a long list of holes, nor lengths that lead nowhere."""
    _, content, problem = read(gzip.compress(headers + pack_tar({"a.log": b"a\n"})), tmp_path)
    assert str(problem).startswith(said)
    assert "a.log" not in content or content["a.log"] == b""


def test_a_tar_of_many_members_takes_no_memory_for_each(tmp_path: Path) -> None:
    """What is common to all members is not collected either."""
    marks = [header(b"g", b"30000 k%02d=%s\n" % (number, b"v" * 29_989)) for number in range(100)]
    data = b"".join(mark + pack_tar({"a.log": b"a\n"})[512:1536] for mark in marks) + bytes(1024)
    tracemalloc.start()
    try:
        _, content, problem = read(data, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert (content, problem) == ({"a.log": b"a\n"}, None)


def test_a_sparse_file_and_its_list_of_holes_are_skipped(tmp_path: Path) -> None:
    """GNU's list of holes goes on in blocks of its own before the data."""
    head = bytearray(describe("holes.log", 512, tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    head[482] = 1
    more = bytes(504) + b"\1" + bytes(7) + bytes(512)
    members, content, problem = read(seal(head) + more + b"x" * 512 + pack_tar({"a.log": b"a\n"}), tmp_path)
    assert [(member.name, member.refusal) for member in members] == [("holes.log", "a sparse file"), ("a.log", "")]
    assert (content["a.log"], problem) == (b"a\n", None)


def test_what_is_no_file_in_a_tar_is_refused(tmp_path: Path) -> None:
    """Links, devices and pipes have no content, whatever their size says."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            archive.addfile(describe(f"kind {kind.decode()}", 512, kind))
        archive.addfile(describe("a.log", 2), io.BytesIO(b"a\n"))
    members, content, problem = read(out.getvalue(), tmp_path)
    assert [member.refusal for member in members] == ["not a regular file"] * 5 + [""]
    assert (content["a.log"], problem) == (b"a\n", None)


def test_what_cannot_be_read_in_a_zip_is_skipped(tmp_path: Path) -> None:
    """A link, an encrypted member and one of another method are refused, a wrong checksum is a problem, the others are
    read."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("secret.log", "false.log", "good.log"):
            archive.writestr(name, TEXT)
        link = zipfile.ZipInfo("link.log")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("other.log", TEXT, zipfile.ZIP_BZIP2)
    data = bytearray(out.getvalue())
    data[data.find(b"PK\1\2") + 8] |= 1
    data[data.find(b"false.log") + 100_000] ^= 1
    members, content, problem = read(bytes(data), tmp_path)
    assert [(member.name, member.refusal, str(member.content.problem or "")) for member in members] == [
        ("secret.log", "encrypted", ""),
        ("false.log", "", "Bad CRC-32 for file 'false.log'"),
        ("good.log", "", ""),
        ("link.log", "not a regular file", ""),
        ("other.log", "compressed by the unsupported method 12 of zip", ""),
    ]
    assert (content["good.log"], problem) == (TEXT, None)
    assert content["false.log"][:99_000] == TEXT[:99_000]


def test_names_of_windows_and_dos(tmp_path: Path) -> None:
    """Backslashes are folders; what is not UTF-8 is code page 437."""
    data = pack_zip({"ns/caf_.log": b"x\n"}).replace(b"ns/caf_.log", b"ns\\caf\x82.log")
    assert list(read(data, tmp_path)[1]) == ["ns/café.log"]
