"""librdkafka's mock cluster as a process: prints where it listens, and ends with its standard input.

    python tests/bench/mock_cluster.py TOPIC PARTITIONS

The mock is C code in the library that comes with confluent-kafka, reached by ctypes. It aborts its process on requests
that it does not expect, which is why it has one of its own.
"""

import ctypes
import sys
from pathlib import Path

import confluent_kafka

PRODUCER = 0


def main(topic: str, partitions: int) -> None:
    """Serves until standard input ends."""
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka-*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    why = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    client = library.rd_kafka_new(PRODUCER, settings, why, ctypes.c_size_t(len(why)))
    if not client:
        sys.exit(why.value.decode())
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), 1))
    library.rd_kafka_mock_topic_create(cluster, topic.encode(), partitions, 1)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
