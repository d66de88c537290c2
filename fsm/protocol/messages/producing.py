"""Messages of producers: Produce, and those of transactions, InitProducerId, AddOffsetsToTxn, EndTxn.

Source: `ProduceRequest.json`, `InitProducerIdRequest.json`, `AddOffsetsToTxnRequest.json`, `EndTxnRequest.json` and
their responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages.fetching import LeaderIdAndEpoch, NodeEndpoint
from fsm.protocol.schema import Int16, Int64, Wire
from fsm.step import value


@value
class PartitionProduceData:
    """A batch for one partition."""

    index: int
    records: bytes | None


class TopicProduceData(NamedTuple):
    """Batches for one topic."""

    name: Annotated[str, Wire(until=12)] = ""
    topic_id: Annotated[TopicId, Wire(since=13)] = NO_TOPIC_ID
    partition_data: tuple[PartitionProduceData, ...] = ()


@value
class ProduceRequest:
    """Appends records. Brokers of Kafka 4 also announce versions 0 to 2, and refuse them (KAFKA-18659)."""

    transactional_id: str | None = field(default=None, kw_only=True)
    acks: Int16 = -1
    """Replicas that must have the records before the response: 1 the leader, -1 all. With 0 there is no response."""
    timeout_ms: int = 30_000
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(NamedTuple):
    """A record that caused its batch to be refused."""

    batch_index: int
    batch_index_error_message: str | None = None


@value
class PartitionProduceResponse:
    """Result for one batch."""

    index: int
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Wire(since=5)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], Wire(since=8)] = ()
    error_message: Annotated[str | None, Wire(since=8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Wire(since=10, tag=0)] = LeaderIdAndEpoch()


class TopicProduceResponse(NamedTuple):
    """Result for one topic's batches."""

    name: Annotated[str, Wire(until=12)] = ""
    topic_id: Annotated[TopicId, Wire(since=13)] = NO_TOPIC_ID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


@value
class ProduceResponse:
    """Result for each batch."""

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = field(default=0, kw_only=True)
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Wire(since=10, tag=0)] = ()


@value
class InitProducerIdRequest:
    """Asks for a producer's id and epoch, and ends an open transaction of its predecessor.

    Version 6 (KIP-939) is not stable in 4.4: its brokers announce 5.
    """

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: Annotated[Int64, Wire(since=3)] = -1
    producer_epoch: Annotated[Int16, Wire(since=3)] = -1
    enable2_pc: Annotated[bool, Wire(since=6)] = False
    keep_prepared_txn: Annotated[bool, Wire(since=6)] = False


@value
class InitProducerIdResponse:
    """The producer's id and epoch."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.NONE, kw_only=True)
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Wire(since=6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Wire(since=6)] = -1


@value
class AddOffsetsToTxnRequest:
    """Adds the offsets of a group to the transaction."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@value
class AddOffsetsToTxnResponse:
    """Whether the group was added."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE


@value
class EndTxnRequest:
    """Commits or aborts a transaction."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@value
class EndTxnResponse:
    """Whether the transaction ends; since version 5 with the producer id and epoch for the next one."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    error_code: ErrorCode = ErrorCode.NONE
    producer_id: Annotated[Int64, Wire(since=5)] = -1
    producer_epoch: Annotated[Int16, Wire(since=5)] = -1
