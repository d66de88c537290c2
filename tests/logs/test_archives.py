"""Members of tar and zip archives, as each tool writes them, damaged and hostile."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsm.logs.reading.archives import Member, read_members
from fsm.logs.reading.opening import READ_ERRORS, open_archive

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
    with open_archive(str(path)) as (what, handle):
        try:
            for member in read_members(what, handle):
                members.append(member)
                parts = list(member.read())
                assert max(map(len, parts), default=0) <= 1 << 16
                content[member.name] = b"".join(parts)
        except READ_ERRORS as problem:
            return members, content, problem
    return members, content, None


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_archive(tmp_path: Path, form: str) -> None:
    """Names, contents and times of the members, whichever tool wrote them."""
    members, content, problem = read(FORMS[form](FILES), tmp_path)
    assert (content, problem) == (FILES, None)
    assert {member.modified_s for member in members} == {MODIFIED_S}
    assert not any(member.refusal or member.problem for member in members)


@pytest.mark.parametrize("form", FORMS)
def test_content_that_is_not_wanted_is_skipped(tmp_path: Path, form: str) -> None:
    """The next member is found, whether nothing, the beginning or everything of one is read."""
    (tmp_path / "archive").write_bytes(FORMS[form](FILES))
    with open_archive(str(tmp_path / "archive")) as (what, handle):
        names = []
        for number, member in enumerate(read_members(what, handle)):
            names.append(member.name)
            if number % 2:
                next(member.read(), None)
    assert names == list(FILES)


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_is_read_up_to_the_damage(tmp_path: Path, form: str) -> None:
    """Wherever it is cut, what stands before is read, and the end is a problem."""
    data = FORMS[form](FILES)
    last = data.find(b"PK\1\2") if form.startswith("zip") else len(data.rstrip(b"\0"))
    for end in (*range(300, last, last // 30), last - 1):
        _, content, problem = read(data[:end], tmp_path)
        assert problem is not None, end
        for name, found in content.items():
            assert FILES[name].startswith(found), end


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


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (b"x", b"1" * (2 << 20), "a header of more than 1 MB"),
        (b"L", b"a" * (2 << 20), "a header of more than 1 MB"),
        (b"x", b"9" * 5000, "a damaged header"),
        (b"x", b"3 a\n", "a damaged header"),
        (b"x", b"19 size=-9999999999\n", "a damaged header"),
        (b"x", b"0 path=a\n", "a damaged header"),
    ],
)
def test_a_header_of_a_tar_is_bounded(tmp_path: Path, kind: bytes, data: bytes, said: str) -> None:
    """Neither long ones, nor lengths that lead nowhere."""
    head = describe("h", len(data), kind).tobuf(tarfile.USTAR_FORMAT)
    padded = data + bytes(-len(data) % 512)
    archive = head + padded + pack_tar({"a.log": b"a\n"})
    _, content, problem = read(gzip.compress(archive), tmp_path)
    assert (content, str(problem)) == ({}, said)


def test_a_sparse_file_and_its_list_of_holes_are_skipped(tmp_path: Path) -> None:
    """GNU's list of holes goes on in blocks of its own before the data."""
    head = bytearray(describe("holes.log", 512, tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    head[482] = 1
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    more = bytes(504) + b"\1" + bytes(7) + bytes(512)
    members, content, problem = read(bytes(head) + more + b"x" * 512 + pack_tar({"a.log": b"a\n"}), tmp_path)
    assert [(member.name, member.refusal) for member in members] == [
        ("holes.log", "not a regular file"),
        ("a.log", ""),
    ]
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
    """An encrypted member and one of another method are refused, a wrong checksum is a problem, the others are read."""
    data = bytearray(pack_zip({"secret.log": TEXT, "false.log": TEXT, "good.log": TEXT}, zipfile.ZIP_STORED))
    starts = [data.find(b"PK\3\4" + b"\x14\0")]
    while (place := data.find(b"PK\3\4", starts[-1] + 1)) >= 0:
        starts.append(place)
    _, secret, false, _ = starts
    data[secret + 6] |= 1
    data[false + 100] ^= 1
    members, content, problem = read(bytes(data), tmp_path)
    assert [(member.name, member.refusal, str(member.problem or "")) for member in members] == [
        ("secret.log", "encrypted", ""),
        ("false.log", "", "its checksum is wrong"),
        ("good.log", "", ""),
    ]
    assert (content["good.log"], problem) == (TEXT, None)
    other = pack_zip({"a.log": TEXT}, zipfile.ZIP_BZIP2)
    assert [member.refusal for member in read(other, tmp_path)[0]] == ["compressed by the unsupported method 12 of zip"]


def test_names_of_windows_and_dos(tmp_path: Path) -> None:
    """Backslashes are folders; what is not UTF-8 is code page 437."""
    data = pack_zip({"ns/caf_.log": b"x\n"}).replace(b"ns/caf_.log", b"ns\\caf\x82.log")
    assert list(read(data, tmp_path)[1]) == ["ns/café.log"]


def test_lengths_of_more_than_32_bits(tmp_path: Path) -> None:
    """A member with the lengths of ZIP64, which small files may have as well."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("large.log", "w", force_zip64=True) as member:
            member.write(TEXT)
        archive.writestr("a.log", b"a\n")
    data = out.getvalue()
    assert struct.unpack_from("<I", data, 18) == (0xFFFF_FFFF,)
    assert read(data, tmp_path)[1:] == ({"large.log": TEXT, "a.log": b"a\n"}, None)
