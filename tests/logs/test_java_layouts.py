"""`fsm.logs.layouts.java_layouts`: one event in each layout, times and zones, lines that were cut, hostile input."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.logs import formats
from fsm.logs.programs.java_client import FORMATS
from fsm.logs.reading.entries import LINE_LIMIT
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import Kind, Partition, TraceRecord, from_json

KAFKA, SPRING, ECS = FORMATS
INTERNALS = "org.apache.kafka.clients.consumer.internals"
PREFIX = "[Consumer clientId=c, groupId=g] "
STEP = PREFIX + "Member wt3hABL_QxWU8J4UJOwYEg with epoch 3 transitioned from ACKNOWLEDGING to STABLE."
MS = 1795247856001


def kafka(text: str, logger: str = "ConsumerMembershipManager", trace: str = "") -> str:
    """Kafka's pattern."""
    return f"[2026-11-21 07:57:36,001] INFO {text} ({INTERNALS}.{logger}){trace}\n"


def spring(text: str, logger: str = "o.a.k.c.c.i.ConsumerMembershipManager", thread: str = "ckground_thread") -> str:
    """Spring Boot's pattern; %-40.40c cuts the logger from the left, %15.15t the thread."""
    return f"2026-11-21T07:57:36.001Z   INFO 29348 --- [{thread:>15}] {logger:<40} : {text}\n"


def ecs(text: str, logger: str = "ConsumerMembershipManager", more: str = "") -> str:
    """The JSON layout; the text must need no escape beyond the given ones."""
    return (
        f'{{"@timestamp":"2026-11-21T07:57:36.001Z","ecs.version":"1.2.0","log.level":"INFO","message":"{text}",'
        f'"process.thread.name":"consumer_background_thread","log.logger":"{INTERNALS}.{logger}"{more}}}\n'
    )


NESTED = (
    f'{{"@timestamp":"2026-11-21T07:57:36.001Z","log":{{"level":"INFO","logger":"{INTERNALS}.ConsumerMembershipManager"}},'
    f'"process":{{"pid":12,"thread":{{"name":"consumer_background_thread"}}}},"message":"{STEP}"}}\n'
)


def read(text: str, zone: tzinfo = UTC) -> list[list[TraceRecord] | None]:
    """What each entry gives, None where it was not understood; entries that are no candidates are left out."""
    out: list[list[TraceRecord] | None] = []
    for entry in from_bytes(text.encode(), FORMATS):
        if entry.format is not None and entry.format.candidate.search(entry.data):
            found = entry.format.parse(entry.data.decode("utf-8", "replace"), zone)
            out.append(None if found is None else list(found))
    return out


def only(text: str, zone: tzinfo = UTC) -> TraceRecord:
    """The one record of the one entry."""
    (records,) = read(text, zone)
    assert records is not None
    (record,) = records
    return record


def test_the_layouts_are_found_by_name() -> None:
    """The registry finds the Java formats without being told, and the one that stands for learned layouts."""
    assert [f.layout for f in formats() if f.name == "java"] == ["kafka", "spring", "json", "learned"]


@pytest.mark.parametrize(
    "line", [kafka(STEP), spring(STEP), ecs(STEP), NESTED], ids=["kafka", "spring", "ecs", "nested"]
)
def test_a_line_means_the_same_in_every_layout(line: str) -> None:
    """Time, identity, thread and transition do not depend on the layout."""
    assert only(line) == TraceRecord(
        MS,
        Kind.TRANSITION,
        group="g",
        client_id="c",
        member_id="wt3hABL_QxWU8J4UJOwYEg",
        thread="background",
        machine="consumer-member",
        state="ACKNOWLEDGING",
        next_state="STABLE",
        epoch=3,
    )


def test_local_time_is_read_in_the_given_zone() -> None:
    """Kafka's pattern prints no zone: 07:57 in Berlin is 06:57 UTC in winter."""
    assert only(kafka(STEP), ZoneInfo("Europe/Berlin")).ts_ms == MS - 3_600_000


def test_zones_with_odd_offsets_are_zones() -> None:
    """A fixed offset of 5:45 moves the same line by as much."""
    zone = timezone(timedelta(hours=5, minutes=45))
    assert only(kafka(STEP), zone).ts_ms == int(datetime(2026, 11, 21, 7, 57, 36, 1000, zone).timestamp() * 1000)


def test_a_printed_zone_wins() -> None:
    """Spring prints the offset; the given zone is not asked."""
    line = spring(STEP).replace("07:57:36.001Z", "09:27:36.001+01:30")
    assert only(line, ZoneInfo("Asia/Tokyo")).ts_ms == MS


def test_spring_boot_2_prints_local_time() -> None:
    """Its date has a blank for the T and no offset."""
    line = spring(STEP).replace("2026-11-21T07:57:36.001Z", "2026-11-21 07:57:36.001")
    assert only(line, ZoneInfo("Europe/Berlin")).ts_ms == MS - 3_600_000


@pytest.mark.parametrize("time", ["2026-13-21 07:57:36,001", "0000-01-01 00:00:00,000", "2026-11-21 24:57:36,001"])
def test_an_impossible_time_is_not_understood(time: str) -> None:
    """Month 13, year 0 and hour 24 look like times and are none."""
    assert read(kafka(STEP).replace("2026-11-21 07:57:36,001", time)) == [None]


def test_an_impossible_offset_is_not_understood() -> None:
    """There is no offset of 99 hours."""
    assert read(spring(STEP).replace(".001Z", ".001+99:00")) == [None]


@pytest.mark.parametrize("line", [kafka(STEP), spring(STEP)], ids=["kafka", "spring"])
def test_a_text_that_is_printed_again_means_the_same_at_its_own_time(line: str) -> None:
    """Only the time differs; a stamp that is none, or in another zone, is no other for what was read before."""
    first, later, none, last = read(
        line + line.replace("07:57:36", "08:57:37") + line.replace("07:57:36", "24:57:36") + line
    )
    assert first == last == [only(line)]
    assert later == [replace(only(line), ts_ms=MS + 3_601_000)]
    assert none is None
    zone = ZoneInfo("Europe/Berlin")
    assert only(line.replace("Z ", " "), zone).ts_ms == MS - 3_600_000


@pytest.mark.parametrize("more", [" host-1", " [host-1]", "$", "\tx"])
def test_a_line_with_text_behind_the_logger_is_not_understood(more: str) -> None:
    """Kafka's layout ends with the logger: it is another one, which has to be learned."""
    line = f"{kafka(STEP).rstrip()}{more}\n"
    assert read(line) == [None]
    assert read(line + kafka(STEP)) == [None, read(kafka(STEP))[0]]


def test_a_static_member_shows_its_instance() -> None:
    """The prefix of a static member begins with its instance id."""
    record = only(kafka(STEP.replace("clientId=c", "instanceId=i-a, clientId=c")))
    assert (record.instance_id, record.client_id, record.group) == ("i-a", "c", "g")


def test_spring_cuts_logger_and_thread_names() -> None:
    """The longest class name loses its package, the heartbeat thread all but the end of the group's name."""
    prefix = "[Consumer clientId=c, groupId=g-x02-coop-rolling] "
    beat = prefix + "Received successful Heartbeat response"
    lines = (
        spring(prefix + "Adding newly assigned partitions: [t-0]", "k.c.c.i.ConsumerRebalanceListenerInvoker", "main")
        + spring(beat, "o.a.k.c.c.i.ConsumerCoordinator", "02-coop-rolling")
        + spring(beat, "o.a.k.c.c.i.ConsumerCoordinator", "main")
    )
    assert [r.thread for records in read(lines) for r in records or ()] == ["app", "background", "app"]


GIVEN_UP = (
    "[Consumer clientId=c, groupId=g] Cancelled in-flight CONSUMER_GROUP_HEARTBEAT request with correlation id 16 due "
    "to node +1 being disconnected (elapsed time since creation: 5001ms, request timeout: 5000ms)"
)


@pytest.mark.parametrize(
    "line",
    [
        kafka(GIVEN_UP, "NetworkClient").replace(".consumer.internals", ""),
        spring(GIVEN_UP, "org.apache.kafka.clients.NetworkClient"),
        ecs(GIVEN_UP, "NetworkClient").replace(".consumer.internals", ""),
    ],
    ids=["kafka", "spring", "ecs"],
)
def test_a_heartbeat_that_was_given_up_is_told_by_the_network_client(line: str) -> None:
    """Of all that this class says, heartbeats alone count."""
    found = only(line)
    assert (found.kind, found.client_id, found.thread) == (Kind.HEARTBEAT_GIVEN_UP, "c", "background")
    assert not any(read(line.replace("CONSUMER_GROUP_HEARTBEAT", "OFFSET_COMMIT")))


def test_spring_boot_may_print_the_name_of_the_application() -> None:
    """Spring Boot 3 puts `[application]` before the thread."""
    assert only(spring(STEP).replace("--- [", "--- [orders] [")) == only(spring(STEP))


def test_a_logger_may_carry_its_line_number() -> None:
    """Kafka Connect's own pattern ends with `(%c:%L)`."""
    assert only(kafka(STEP).replace("Manager)", "Manager:312)")) == only(kafka(STEP))


def test_noise_is_no_candidate() -> None:
    """Lines of the fetcher, of connections and of other people's classes are not even decoded."""
    step = "Adding newly assigned partitions: [t-0]"
    lines = (
        kafka(PREFIX + "Added read_uncommitted fetch request for partition t-0", "AbstractFetch")
        + kafka(PREFIX + "Node -1 disconnected.", "NetworkClient").replace(INTERNALS, "org.apache.kafka.clients")
        + kafka(step, "Invoker").replace(INTERNALS, "com.example")
        + spring(PREFIX + "Node -1 disconnected.", "org.apache.kafka.clients.NetworkClient", "main")
        + spring(step, "com.example.Invoker", "main")
        + ecs("ConsumerCoordinator", "Consumer").replace(INTERNALS, "com.example")
    )
    assert read(lines) == []


THROWN = "User provided listener L failed on invocation of onPartitionsLost for partitions [t-3]"
TRACE = "java.lang.IllegalStateException: on purpose\n\tat Member.maybeThrow(Member.java:22)"


@pytest.mark.parametrize(
    "entry",
    [
        kafka(PREFIX + THROWN, "ConsumerRebalanceListenerInvoker", "\n" + TRACE),
        spring(PREFIX + THROWN + "\n\n" + TRACE, "k.c.c.i.ConsumerRebalanceListenerInvoker", "main"),
        ecs(
            PREFIX + THROWN,
            "ConsumerRebalanceListenerInvoker",
            ',"error.stack_trace":"' + TRACE.replace("\n", "\\n").replace("\t", "\\t") + '"',
        ),
    ],
    ids=["kafka", "spring", "ecs"],
)
def test_the_exception_is_found_in_every_layout(entry: str) -> None:
    """Behind the logger, behind the message, or in a field of its own."""
    assert only(entry) == TraceRecord(
        MS,
        Kind.CALLBACK_FAILED,
        group="g",
        client_id="c",
        event="lost",
        partitions=(("t", 3),),
        detail="java.lang.IllegalStateException: on purpose",
        thread="app",
    )


# Lines that were cut


def assigned(parsed: object) -> tuple[Partition, ...]:
    """The partitions of the one record."""
    assert isinstance(parsed, tuple)
    (record,) = parsed
    assert record.kind is Kind.ASSIGN_BEGIN
    return tuple(record.partitions)


@pytest.mark.parametrize("opening", ["[", ""])
def test_a_list_cut_in_a_partition_loses_that_partition(opening: str) -> None:
    """`t-1` may be the beginning of `t-12`: it is dropped, with brackets and without. A shorter line may go on
    elsewhere, and tells nothing."""
    entry = f"[2026-11-21 07:57:36,001] INFO {PREFIX}Adding newly assigned partitions: {opening}t-7, t-8, t-1"
    assert assigned(KAFKA.parse(entry.ljust(LINE_LIMIT), UTC)) == (("t", 7), ("t", 8))
    assert KAFKA.parse(entry, UTC) is None


def test_spring_knows_a_cut_line_by_its_length() -> None:
    """The logger stands in front. A shorter line without the end of its list may go on elsewhere, and tells nothing."""
    head = spring(
        PREFIX + "Adding newly assigned partitions: ", "k.c.c.i.ConsumerRebalanceListenerInvoker", "main"
    ).rstrip("\n")
    assert SPRING.parse(head + "[t-7, t-1", UTC) is None
    longest = (head + "t-7, " * 300_000)[: LINE_LIMIT - 4]
    assert assigned(SPRING.parse(longest[: longest.rindex(",")] + ", t-1".ljust(LINE_LIMIT), UTC)) == (("t", 7),)


def test_a_json_line_that_was_cut_is_not_understood() -> None:
    """Half an object is no object."""
    assert ECS.parse(ecs(STEP)[:-5], UTC) is None


# Hostile input

SAMPLES = (
    kafka(STEP),
    spring(STEP),
    ecs(STEP),
    NESTED,
    kafka(PREFIX + THROWN, "ConsumerRebalanceListenerInvoker", "\n" + TRACE),
    kafka(PREFIX + "Adding newly assigned partitions: [t-0, t-1]", "ConsumerRebalanceListenerInvoker"),
    kafka(PREFIX + "Lost previously assigned partitions t-0, t-1", "ConsumerRebalanceListenerInvoker"),
    kafka(
        PREFIX + "Successfully joined group with generation Generation{generationId=4, memberId='m', protocol='range'}",
        "ConsumerCoordinator",
    ),
    kafka(PREFIX + "Offset commit failed on partition t-3 at offset 5: gone", "ConsumerCoordinator"),
    kafka(PREFIX + "Request joining group due to: need to re-join with the given member-id: m", "ConsumerCoordinator"),
    kafka(PREFIX + "Subscribed to topic(s): t1, t2", "AsyncKafkaConsumer"),
    kafka("ConsumerConfig values: \n\tclient.id = c\n\tgroup.id = g\n", "AbstractConfig").replace(
        INTERNALS, "org.apache.kafka.common.config"
    ),
)


# fmt: off
SAID = [
    ["transition"], ["transition"], ["transition"], ["transition"], ["callback_failed"], ["assign_begin"],
    ["lost_begin"], ["transition", "joined"], ["commit_failed"], ["joining", "member_id"], ["subscribed"], ["started"],
]
# fmt: on


def parse_all(text: str) -> list[TraceRecord]:
    """Every layout either understands the text or not; what it gives can be written and read back."""
    records = [record for format_ in FORMATS for record in format_.parse(text, UTC) or ()]
    for record in records:
        assert from_json(record.to_json().encode().decode()) == record
        assert all(number < 2**31 for _, number in record.partitions)
        assert record.epoch is None or abs(record.epoch) < 2**31
    return records


def test_every_sample_is_understood() -> None:
    """What is damaged below says something while it is whole: each sample in one layout."""
    kinds = [[record.kind.value for record in parse_all(line)] for line in SAMPLES]
    assert kinds == SAID


@given(st.binary(max_size=400))
def test_random_bytes_say_nothing_of_their_own(data: bytes) -> None:
    """Whatever is in a file, parsing it ends with records or without; every name that comes out stands in it."""
    text = data.decode("utf-8", "replace")
    assert parse_all(text) == []
    for logger in ("ConsumerCoordinator", "ConsumerMembershipManager", "ConsumerRebalanceListenerInvoker"):
        assert_told(kafka(PREFIX + text, logger))


def assert_told(text: str) -> None:
    """Names are as the text has them; JSON may spell them otherwise."""
    for record in parse_all(text):
        names = (record.client_id, record.group, record.member_id, *record.topics, *(t for t, _ in record.partitions))
        assert [name for name in names if name not in text and "\\" not in text] == []


DAMAGE = st.text(max_size=12) | st.sampled_from(["9" * 5000, "[", "]", "\n", "null", "-", ", "])


@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), DAMAGE)))
def test_damaged_lines_say_nothing_of_their_own(line: str, damage: list[tuple[int, int, str]]) -> None:
    """Real lines with pieces replaced, removed and put in: every name that comes out stands in them."""
    for start, length, text in damage:
        line = line[:start] + text + line[start + length :]
    assert_told(line.encode("utf-8", "replace").decode())


@pytest.mark.parametrize("line", SAMPLES)
def test_a_line_cut_anywhere_says_nothing_else(line: str) -> None:
    """A process killed while it wrote leaves half a line: less of the same is said, at the same time, or nothing."""
    whole = parse_all(line)
    said = {record.kind for record in whole}
    partitions = {partition for record in whole for partition in record.partitions}
    for length in range(len(line)):
        for record in parse_all(line[:length]):
            assert record.ts_ms == whole[0].ts_ms
            assert record.kind in said
            assert partitions.issuperset(record.partitions)
    assert parse_all(line[:30]) == []


def test_json_of_another_shape_gives_no_record() -> None:
    """Wrong types, huge numbers and deep nesting are data, not accidents."""
    stamp = f'{{"@timestamp":"2026-11-21T07:57:36.001Z","log.logger":"{INTERNALS}.AsyncKafkaConsumer","message":'
    for line in ("[]", "{", stamp + "[1]}", stamp + "[" * 100_000, stamp + "9" * 5000 + "}", '{"@timestamp":5}'):
        assert not ECS.parse(line, UTC)


def test_half_a_surrogate_pair_is_replaced() -> None:
    """JSON can spell what no file can hold."""
    record = only(ecs(PREFIX + "Subscribed to pattern: 't\\ud800'", "AsyncKafkaConsumer"))
    assert record.detail == "t?"


LONG = 1_000_000


@pytest.mark.parametrize(
    ("text", "logger", "unit"),
    [
        ("Member ", "ConsumerMembershipManager", "Member  with epoch 1 "),
        ("Member x updated from LocalAssignment{", "ConsumerMembershipManager", " to LocalAssignment"),
        ("Reconciling assignment with local epoch 1", "ConsumerMembershipManager", "\n\tMember:" + " " * 61),
        ("Time between subsequent calls to poll() was longer ", "ConsumerHeartbeatRequestManager", " Member "),
        ("Asynchronous auto-commit of offsets ", "ConsumerCoordinator", " failed"),
        ("OffsetCommit failed with ", "ConsumerCoordinator", "Generation{"),
        ("Group coordinator ", "ConsumerCoordinator", " is unavailable or invalid due to cause: "),
        ("Adding newly assigned partitions: ", "ConsumerRebalanceListenerInvoker", "t-0-, "),
        ("", "ConsumerCoordinator", " (org.apache.kafka."),
        ("", "ConsumerCoordinator", "[Consumer clientId=, groupId=] "),
        ("", "ConsumerCoordinator", ', groupId="logger":"a.'),
    ],
)
def test_a_megabyte_made_to_backtrack_is_read_once(text: str, logger: str, unit: str) -> None:
    """Each line would take hours if a pattern tried every way to split it; all of them end without a record."""
    hostile = text + unit * (LONG // len(unit))
    lines = (
        kafka(PREFIX + hostile, logger),
        spring(PREFIX + hostile, logger, "main"),
        kafka(hostile, logger),
        ecs(hostile),
    )
    for line in lines:
        assert [records for records in read(line) if records] == []
