"""CPU microseconds a line of one process that reads and parses: every entry made, and only those that may matter.

    python tests/bench/reading.py [LINES]

Lines are an application's own in several layouts, beside a client's few, or all a client's at DEBUG.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from logs.wrappers import JAVA, Event, java_events
from recordings import logs

from fsm.audit.reading.scanning import Parsed, Scanner, parse_all
from fsm.logs import clients, formats
from fsm.logs.layouts.layout import signs_of
from fsm.logs.reading.pieces import WHOLE, Piece, PieceReader

WORDS = (
    "order",
    "of",
    "a",
    "customer",
    "taken",
    "from",
    "stock",
    "sent",
    "in",
    "17",
    "ms",
    "id",
    "3413",
    "OK",
    "by",
    "GET",
)
CLASSES = ("com.acme.orders.OrderService", "com.acme.stock.Warehouse", "com.acme.web.RequestFilter")


def chatter(count: int, first_ms: int) -> Iterator[Event]:
    """What an application logs."""
    chance = random.Random(7)  # noqa: S311  not for secrets
    for i in range(count):
        text = " ".join(chance.choices(WORDS, k=12))
        thread = f"http-nio-8080-exec-{i % 10}"
        yield Event(first_ms + 3 * i, chance.choice(("INFO", "DEBUG")), chance.choice(CLASSES), thread, text)


def write(path: Path, layout: str, count: int) -> None:
    """A client's few lines, then an application's."""
    client = list(java_events(logs("java")["i_j09_kill9"]["A.log"]))
    path.write_text(JAVA[layout]([*client, *chatter(count, client[-1].ts_ms)]))


def write_debug(path: Path, count: int) -> None:
    """A client's lines at DEBUG, over and over."""
    data = logs("java")["j02_second_joins"]["A.log"]
    path.write_bytes(data * (1 + count // data.count(b"\n")))


def every(reader: PieceReader) -> Iterable[Parsed]:
    return parse_all(reader.entries(), UTC)


def some(reader: PieceReader) -> Iterable[Parsed]:
    return Scanner(reader, signs_of(clients()), UTC).scan()


def measure(path: Path, entries: Callable[[PieceReader], Iterable[Parsed]]) -> tuple[float, int]:
    """CPU microseconds a line, and the records that were found."""
    begin, found = time.process_time(), 0
    reader = PieceReader(Piece(str(path), 0, WHOLE), formats())
    for parsed in entries(reader):
        found += len(parsed.records or ())
    return (time.process_time() - begin) * 1e6 / reader.lines, found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print(f"{'lines':24} {'every entry':>12} {'those that matter':>18}  CPU us a line")
    with tempfile.TemporaryDirectory() as folder:
        for layout in ("kafka", "spring", "logback", "logstash", "all DEBUG"):
            path = Path(folder) / f"{layout}.log"
            if layout == "all DEBUG":
                write_debug(path, count)
            else:
                write(path, layout, count)
            (entries, found), (scanned, same) = (measure(path, how) for how in (every, some))
            assert found == same, (layout, found, same)
            print(f"{layout:24} {entries:12.2f} {scanned:18.2f}")


if __name__ == "__main__":
    main()
