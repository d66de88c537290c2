"""Kafka's data types: messages, records and their binary encoding, error codes, settings, assignments.

All are frozen, hashable values without protocol logic, which is in the members, the coordinator and the workers.
Requests and responses are in `fsm.protocol.messages`, records of `__consumer_offsets` in `fsm.protocol.records`.

* `encode_request`, `decode_request`, `decode_header`, `encode_response`, `decode_response`: frames of the wire
* `encode`, `decode`: a message or a struct alone
* `read_batches`, `write_batch`, `Batch`: segments of a log
* `ErrorCode`, `ConsumerConfig`, `RELEASES`: error codes, settings of a consumer, the releases that are known
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.protocol.codec import (
        decode,
        decode_header,
        decode_request,
        decode_response,
        encode,
        encode_request,
        encode_response,
    )
    from fsm.protocol.config import ConsumerConfig
    from fsm.protocol.error_codes import ErrorCode
    from fsm.protocol.record_batches import Batch, read_batches, write_batch
    from fsm.protocol.releases import RELEASES

__all__ = [
    "RELEASES",
    "Batch",
    "ConsumerConfig",
    "ErrorCode",
    "decode",
    "decode_header",
    "decode_request",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "read_batches",
    "write_batch",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "codec": (
            "decode",
            "decode_header",
            "decode_request",
            "decode_response",
            "encode",
            "encode_request",
            "encode_response",
        ),
        "config": ("ConsumerConfig",),
        "error_codes": ("ErrorCode",),
        "record_batches": ("Batch", "read_batches", "write_batch"),
        "releases": ("RELEASES",),
    },
)
