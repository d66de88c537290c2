"""Decodes texts that were encoded as a whole: base64, other line ends, other blanks, HTML pages, length-prefixed
frames. One function detects each encoding and returns its decoder. The text is read sequentially, and lines are counted
after decoding."""

from __future__ import annotations

import base64
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from urllib.parse import unquote_to_bytes

from fsm.logs.layouts import stamps

HEAD = 1 << 16
"""How many bytes at the beginning of a text decide on its encoding."""
_LONGEST = 1 << 20
"""Most bytes that are buffered until a line or a frame is complete."""

_CONTROLS = bytes([*range(1, 9), *range(14, 27), *range(28, 32), 127])
"""Characters that do not occur in texts."""

Recode = Callable[[Iterable[bytes]], Iterator[bytes]]
"""Maps the chunks of an encoded text, cut anywhere, to those of the decoded text."""


def find_recoding(head: bytes) -> Recode | None:
    """The decoder of a text that begins with these bytes, at most `HEAD`; None if it needs none."""
    if len(head) - len(head.translate(None, _CONTROLS)) > 0.01 * len(head):
        return None
    return next((found for detect in _DETECTORS if (found := detect(head)) is not None), None)


def _split(parts: Iterable[bytes], find_end: Callable[[bytes], int]) -> Iterator[bytes]:
    """Chunks that end where `find_end` finds that nothing is cut, and what is left at the end."""
    rest = b""
    for part in parts:
        text = rest + part
        end = find_end(text)
        rest = text[end:]
        if end:
            yield text[:end]
    if rest:
        yield rest


def _split_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks that end at line ends, unless a line is very long."""
    return _split(parts, lambda text: text.rfind(b"\n") + 1 or (len(text) if len(text) > _LONGEST else 0))


def _substitute(pattern: re.Pattern[bytes], by: bytes | Callable[[re.Match[bytes]], bytes]) -> Recode:
    """Replaces what is found within lines."""
    return lambda parts: (pattern.sub(by, part) for part in _split_lines(parts))


# -- line ends and blanks -----------------------------------------------------------------------------------


def _detect_line_ends(head: bytes) -> Recode | None:
    """Line ends of old Macs and progress bars (a single carriage return), of `find -print0`, and of Unicode."""
    if head.isascii() and b"\r" not in head and b"\0" not in head:
        return None
    feeds = head.count(b"\n")
    if feeds > 1 and head.count(b"\r\r\n") > feeds / 2:  # CR LF, whose line feed a terminal expanded again
        return partial(_replace_ends, end=b"\r\r\n")
    for end in (b"\r", b"\xe2\x80\xa8", b"\xc2\x85"):
        count = head.count(end) - (head.count(b"\r\n") if end == b"\r" else 0)
        if count > max(1, _FEWEST_ENDS * feeds):
            return partial(_replace_ends, end=end)
    # A log that was rotated by truncation begins with many NULs.
    parted = head.count(b"\0") > 1 and b"\0\0" not in head and b"\n\0" not in head
    return partial(_replace_ends, end=b"\0") if parted else None


_FEWEST_ENDS = 4


def _replace_ends(parts: Iterable[bytes], end: bytes) -> Iterator[bytes]:
    def find_end(text: bytes) -> int:
        return len(text) - next((n for n in range(len(end), 0, -1) if text.endswith(end[:n])), 0)

    for text in _split(parts, find_end):
        yield text.replace(end if len(end) > 1 else b"\r\n", b"\n").replace(end, b"\n")


_NO_BREAK_SPACE = re.compile(rb"\xc2\xa0|&nbsp;|&#160;|(?<![\x80-\xff])\xa0(?![\x80-\xbf])")


def _detect_blanks(head: bytes) -> Recode | None:
    """No-break spaces instead of most blanks, as in copies from web pages."""
    if b"\xa0" not in head and (b"&" not in head or (b"&nbsp;" not in head and b"&#160;" not in head)):
        return None
    count = sum(1 for _ in _NO_BREAK_SPACE.finditer(head))
    if count < _FEWEST_BLANKS or count < head.count(b" "):
        return None
    return _substitute(_NO_BREAK_SPACE, b" ")


_FEWEST_BLANKS = 5


def _detect_quotes(head: bytes) -> Recode | None:
    """Quotes as word processors and mailers set them: all of them, or the text of an application has some."""
    if b"\xe2\x80" not in head or len(_SET_QUOTE.findall(head)) < _FEWEST_BLANKS or b'"' in head:
        return None
    return _substitute(_SET_QUOTE, lambda found: b"'" if found[1] else b'"')


_SET_QUOTE = re.compile(rb"\xe2\x80(?:([\x98-\x9b])|[\x9c-\x9f])")


def _detect_padding(head: bytes) -> Recode | None:
    """Lines padded with blanks to the width of a column or a screen."""
    ends = head.count(b" \n") + (head.count(b" \r") if b"\r" in head else 0)
    if ends < _FEWEST_BLANKS:
        return None
    empty = 2 * (head.count(b"\n\n") + head.count(b"\n\r\n")) + head.count(b"\t\n")  # at most; empty lines do not count
    if ends < 0.8 * (head.count(b"\n") - empty):
        return None
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:-1] if line.strip()]
    padded = sum(line.endswith(b" ") for line in lines)
    if padded < _FEWEST_BLANKS or padded < 0.8 * len(lines):
        return None
    return _substitute(_PADDED, b"")


_PADDED = re.compile(rb"(?<![ \t])[ \t]++(?=\r?\n|\Z)")


def _detect_percents(head: bytes) -> Recode | None:
    """Percent-encoding (RFC 3986, section 2.1)."""
    coded = b" " not in head.strip() and head.count(b"%20") >= _FEWEST_BLANKS
    return _decode_percents if coded else None


def _decode_percents(parts: Iterable[bytes]) -> Iterator[bytes]:
    def find_end(text: bytes) -> int:
        return len(text) - next((n for n in (1, 2) if text[-n:].startswith(b"%")), 0)

    return map(unquote_to_bytes, _split(parts, find_end))


def _detect_escapes(head: bytes) -> Recode | None:
    """A text on one line, possibly quoted, with its line feeds written as `\\n`, as shown by a debugger or a REPL."""
    if b"\n" in head.strip() or head.count(rb"\n") < _FEWEST_ENDS or _OBJECT.match(head):
        return None
    return _unescape


_OBJECT = re.compile(rb"\s*[{\[]\s*[{\[\"]")
_ESCAPE = re.compile(rb"\\([nrt\"'\\])")
_CHARACTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _unescape(parts: Iterable[bytes]) -> Iterator[bytes]:
    def find_end(text: bytes) -> int:
        return len(text) - (len(text) - len(text.rstrip(b"\\"))) % 2

    for i, text in enumerate(_split(parts, find_end)):
        bare = text if i else re.sub(rb"\Ab?[\"']", b"", text)
        yield _ESCAPE.sub(lambda found: _CHARACTERS.get(found[1], found[1]), bare)


def _detect_controls(head: bytes) -> Recode | None:
    """Tabs between columns, and colours, as rsyslog writes control characters, `#011` and `#033`, or `cat -v`, `^I` and
    `^[`."""
    if head.count(b"#0") < _FEWEST_ENDS and head.count(b"^[[") < _FEWEST_ENDS:
        return None
    if sum(map(head.count, (b"#011", b"#033", b"^[["))) < _FEWEST_ENDS:
        return None
    return _substitute(_CONTROL_SIGN, lambda one: _CONTROL_OF[one[0]])


_CONTROL_SIGN = re.compile(rb"#0(?:11|33)|\^(?:I|\[(?=\[))")
_CONTROL_OF = {b"#011": b"\t", b"^I": b"\t", b"#033": b"\x1b", b"^[": b"\x1b"}


# -- frames -------------------------------------------------------------------------------------------------

_FRAME = re.compile(rb"([1-9]\d{0,5}) (?=<\d{1,3}>)")
_FRAME_HEAD = len(b"999999 <191>")


def _detect_octets(head: bytes) -> Recode | None:
    """Syslog over TCP: each message is preceded by its length in bytes, without separators (RFC 6587, 3.4.1)."""
    place, count = 0, 0
    while (found := _FRAME.match(head, place)) is not None and count < _FEWEST_FRAMES:
        place, count = found.end() + int(found[1]), count + 1
    whole = count == _FEWEST_FRAMES or (count > 1 and place == len(head))
    return _take_frames_off if whole else None


_FEWEST_FRAMES = 3


def _take_frames_off(parts: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        rest += part
        out: list[bytes] = []
        place = 0
        while place < len(rest):
            found = _FRAME.match(rest, place)
            end = found.end() + int(found[1]) if found is not None else 0
            if found is None:  # not at the start of a frame: skip to the next one
                following = _FRAME.search(rest, place + 1)
                if following is None and len(rest) - place < HEAD:
                    break
                end = following.start() if following is not None else len(rest) - _FRAME_HEAD
            elif end > len(rest):
                break
            out.append(rest[found.end() if found is not None else place : end].rstrip(b"\n"))
            place = end
        rest = rest[place:]
        if out:
            yield b"\n".join(out) + b"\n"
    yield _FRAME.sub(b"", rest, count=1)


_HEADING = re.compile(rb"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} DEBG '([^'\n]{1,100})' std(?:out|err) output:\n")


def _detect_supervisord(head: bytes) -> Recode | None:
    """The output of programs in supervisord's own log at level `debug`: a chunk of bytes below each heading. If the
    lines have no times of their own, the headings' times are needed and nothing is done."""
    if head.count(b" output:\n") < _FEWEST_FRAMES or len(_HEADING.findall(head)) < _FEWEST_FRAMES:
        return None
    lines = _HEADING.sub(b"", head).split(b"\n")
    stamped = sum(stamps.ANY.search(line[: stamps.WITHIN].decode("utf-8", "replace")) is not None for line in lines)
    if stamped <= _FEWEST_FRAMES:
        return None
    return partial(_take_headings_off, feed=b"\n" if b"\n\n" in head else b"")  # a collector may drop empty lines


def _take_headings_off(parts: Iterable[bytes], feed: bytes) -> Iterator[bytes]:
    """`feed` is what supervisord writes behind each chunk."""

    def find_end(text: bytes) -> int:
        *_, last = (0, *(found.start() for found in _HEADING.finditer(text)))
        return last if len(text) < _LONGEST else len(text)

    held: dict[bytes, bytes] = {}
    for text in _split(parts, find_end):
        yield from _join_output(text, held, feed)
    yield b"\n".join(held.values())


def _join_output(text: bytes, held: dict[bytes, bytes], feed: bytes) -> Iterator[bytes]:
    """The lines below some headings. The incomplete last line of each program is kept until its next chunk."""
    before, *sections = _HEADING.split(text)
    yield before
    for name, data in zip(sections[::2], sections[1::2], strict=True):
        if len(held) > _MOST_PROGRAMS:
            yield held.pop(next(iter(held)))
        lines, end, held[name] = (held.pop(name, b"") + data.removesuffix(feed)).rpartition(b"\n")
        yield lines + end
        if len(held[name]) > _LONGEST:  # an endless line, such as a progress bar
            yield held.pop(name)


_MOST_PROGRAMS = 1000

_TITLE = re.compile(rb"(?m)^(?:==> ((?=\S*[./])\S{1,200}) <==|(\S{1,100}) \| [A-Z]{2,9} \| rc=\d{1,3} >>)\r?$\n?")


def _detect_titles(head: bytes) -> Recode | None:
    """Lines of several files below the names of these, as `tail -f` prints them, or of hosts, as Ansible does."""
    if not (b"==> " in head or b" >>" in head) or not (found := list(islice(_TITLE.finditer(head), _FEWEST_FRAMES))):
        return None
    first = found[0].start() == 0
    return _name_lines if first or len({one[1] or one[2] for one in found}) > 1 else None


def _name_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Each line behind the name above it. `tail` prints an empty line before each name."""
    name, rest = b"", b""
    for part in _split_lines(parts):
        text = rest + part
        rest = b"\n" if text.endswith(b"\n\n") else b""
        out: list[bytes] = []
        for line in text.removesuffix(rest).replace(b"\n\n==> ", b"\n==> ").splitlines(keepends=True):
            if title := _TITLE.match(line):
                name = (title[1] or title[2]) + b" | "
            else:
                out.append(name + line)
        yield b"".join(out)


_OUTPUT = re.compile(rb"<system-(?:out|err)>(?:<!\[CDATA\[)?|(?:\]\]>)?</system-(?:out|err)>")


def _detect_test_report(head: bytes) -> Recode | None:
    """The output of programs in a JUnit report."""
    if not _BEGINS_REPORT.match(head) or not _OUTPUT.search(head):
        return None
    plain = b"<system-out><![CDATA[" in head or b"<system-err><![CDATA[" in head

    def recode(parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in _split_lines(parts):
            text = _OUTPUT.sub(b"\n", part)
            yield text if plain else html.unescape(text.decode("utf-8", "replace")).encode("utf-8", "replace")

    return recode


_BEGINS_REPORT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?<testsuites?[ >]")


def _detect_asciinema(head: bytes) -> Recode | None:
    """A terminal recording of asciinema, versions 2 and 3. Each recorded chunk may end anywhere."""
    first, _, rest = head.partition(b"\n")
    return _join_printed if _RECORDING.match(first) and _PRINTED.match(rest) else None


_RECORDING = re.compile(rb'\{"version": ?[23]\b')
_PRINTED = re.compile(rb'\s*\[\s*[\d.]+, ?"[a-z]", ?"')


def _join_printed(parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in _split_lines(parts):
        out: list[str] = []
        for line in part.split(b"\n"):
            try:
                found: object = json.loads(line, strict=False)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, list) and found[1:2] == ["o"] and isinstance(found[-1], str):
                out.append(found[-1])
        yield "".join(out).encode("utf-8", "replace")


# -- base64 -------------------------------------------------------------------------------------------------

_CODED = re.compile(rb"[A-Za-z0-9+/_-]{4,}={0,2}")
_TEXT = bytes([*b"\t\n\r\x1b", *range(32, 127)])
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _detect_base64(head: bytes) -> Recode | None:
    """Base64 in lines of equal length, as in mails and PEM files, or one line at a time."""
    body = b""
    if b"base64" in head:
        _, _, body = head.partition(b"base64\r\n\r\n" if b"base64\r\n\r\n" in head else b"base64\n\n")
    lines = [line.strip() for line in (body or head).split(b"\n", _LOOKED_AT)[:_LOOKED_AT]]
    coded = list(filter(_CODED.fullmatch, lines))
    if sum(map(len, coded)) < max(_SHORTEST_CODED, 0.8 * sum(map(len, lines))):
        return None
    ((_, most),) = Counter(map(len, coded)).most_common(1)
    alone = len(coded) > 1 and most < 0.5 * len(coded)
    start = _decode(coded[0][: min(len(coded[0]), _LONGEST_LOOK) // 4 * 4])
    return partial(_decode_lines, alone=alone) if _is_text(start) or start.startswith(_PACKED) else None


_LOOKED_AT, _SHORTEST_CODED, _LONGEST_LOOK = 100, 60, 4000
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")


def _is_text(data: bytes) -> bool:
    return len(data.translate(None, _TEXT)) <= 0.05 * len(data)


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text.translate(_URL_SAFE) + b"=" * (-len(text) % 4))
    except ValueError:
        return text


def _decode_lines(parts: Iterable[bytes], alone: bool) -> Iterator[bytes]:
    rest = b""
    for part in _split_lines(parts):
        out: list[bytes] = []
        for line in part.split(b"\n"):
            text = line.strip()
            if not _CODED.fullmatch(text):
                out += [_decode(rest), line, b"\n"] if text else ()
                rest = b""
            elif alone:
                out += [_decode(text).rstrip(b"\n"), b"\n"]
            else:
                rest += text
                end = len(rest) if text.endswith(b"=") else len(rest) // 4 * 4
                out.append(_decode(rest[:end]))
                rest = rest[end:]
        yield b"".join(out)
    yield _decode(rest)


_VALUE = re.compile(rb'"([A-Za-z0-9+/]{40,}={0,2})"')


def _detect_base64_values(head: bytes) -> Recode | None:
    """JSON strings in base64, as in AWS record streams."""
    found = [_decode(one[1]) for one in islice(_VALUE.finditer(head), _LOOKED_AT)]
    texts = [one for one in found if b" " in one and _is_text(one)]
    if not texts or len(texts) < len(found) / 2:
        return None
    return _substitute(_VALUE, _decode_string)


def _decode_string(found: re.Match[bytes]) -> bytes:
    data = _decode(found[1])
    return json.dumps(data.decode("utf-8", "replace")).encode() if _is_text(data) else found[0]


_NUMBERS = re.compile(rb'("MESSAGE"\s?:\s?)\[((?:\s?\d{1,3},){7,}\s?\d{1,3})\s?\]')


def _detect_byte_lists(head: bytes) -> Recode | None:
    """JSON strings as lists of their bytes, which journald exports for messages with control characters such as
    colours."""
    if b"[" not in head or not head.lstrip(b" \t\r\n\xef\xbb\xbf[").startswith(b"{"):
        return None
    found = [_decode_numbers(one) != one[0] for one in islice(_NUMBERS.finditer(head), _LOOKED_AT)]
    if not found or sum(found) < len(found) / 2:
        return None
    return _substitute(_NUMBERS, _decode_numbers)


def _decode_numbers(found: re.Match[bytes]) -> bytes:
    numbers = [int(one) for one in found[2].split(b",")]
    data = bytes(numbers) if max(numbers) < 256 else b""
    if b" " not in data or not _is_text(data):
        return found[0]
    return found[1] + json.dumps(data.decode("utf-8", "replace")).encode()


_SIGN = re.compile(rb"(?<!\\)\\+u00(3[dD]|27|3[cC]|3[eE]|26)")


def _detect_escaped_signs(head: bytes) -> Recode | None:
    """JSON and CEF in which `=` is escaped, as by Gson, so that no text like `clientId=` is found in their lines."""
    if b"\\" not in head:
        return None
    if b"CEF:" in head and head.count(rb"\=") >= _FEWEST_BLANKS:
        return lambda parts: (part.replace(rb"\=", b"=") for part in _split_lines(parts))
    if head.count(b"u003d") + head.count(b"u003D") < _FEWEST_BLANKS:
        return None
    return _substitute(_SIGN, lambda one: bytes([int(one[1], 16)]))


# -- pages and rich text -------------------------------------------------------------------------------------


def _detect_page(head: bytes) -> Recode | None:
    """An HTML page or a part of one, whatever tags surround its lines."""
    return _strip_tags if _BEGINS_PAGE.match(head) else None


_BEGINS_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?:<\?xml[^>]{0,200}>\s*)?(?:<!doctype html|<html)[ >]"
    rb"|<(?:body|pre|table|div|p|ul|ol)(?: (?:class|style|id|border)=[^<>]{0,2000})?>)",
    re.IGNORECASE,
)
_TAG = re.compile(
    rb"(?P<line><br[^<>]{0,200}>|</?(?:p|div|pre|tr|li|h\d|table|blockquote)(?:\s[^<>]{0,2000})?>)"
    rb"|(?P<cell></t[dh]>\s*)|</?[a-zA-Z!][^<>]{0,4000}>",
    re.IGNORECASE,
)


def _strip_tags(parts: Iterable[bytes]) -> Iterator[bytes]:
    rest = ""
    for part in _split_lines(parts):
        text = _TAG.sub(lambda tag: b"\n" if tag["line"] else b"\t" if tag["cell"] else b"", part)
        whole = rest + html.unescape(text.decode("utf-8", "replace")).replace("\xa0", " ")
        *lines, rest = whole.split("\n")
        if len(rest) > _LONGEST:
            lines, rest = [*lines, rest], ""
        yield _join_cells(lines)
    yield _join_cells([rest])


def _join_cells(lines: Sequence[str]) -> bytes:
    """The lines that have any text, without the tab behind the last cell of each."""
    return "".join(f"{text}\n" for line in lines if (text := line.rstrip("\t")).strip()).encode("utf-8", "replace")


def _detect_rich_text(head: bytes) -> Recode | None:
    """RTF, as saved by word processors."""
    return _substitute(_CONTROL, _decode_character) if head.startswith(b"{\\rtf") else None


_CONTROL = re.compile(
    rb"\{\\(?:fonttbl|colortbl|stylesheet|\*|info)[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
    rb"|\\(?P<ends>par|line)\b ?|\\(?P<tab>tab)\b ?|\\~|\\'(?P<code>[0-9a-f]{2})|\\(?P<itself>[{}\\])"
    rb"|\\[a-z]{1,32}-?\d{0,10} ?|[{}\r\n]"
)


def _decode_character(found: re.Match[bytes]) -> bytes:
    if found["code"]:
        return bytes.fromhex(found["code"].decode())
    if found["ends"] or found["tab"]:
        return b"\n" if found["ends"] else b"\t"
    return found["itself"] or (b" " if found[0] == rb"\~" else b"")


_DETECTORS = (
    _detect_page,
    _detect_test_report,
    _detect_asciinema,
    _detect_rich_text,
    _detect_base64,
    _detect_base64_values,
    _detect_byte_lists,
    _detect_escaped_signs,
    _detect_controls,
    _detect_octets,
    _detect_supervisord,
    _detect_titles,
    _detect_line_ends,
    _detect_blanks,
    _detect_quotes,
    _detect_padding,
    _detect_percents,
    _detect_escapes,
)
"""The encodings; the first one that is found counts, and its output is examined again."""
