"""Kafka Connect in distributed mode: workers, the leader's assignor, a whole cluster.

A worker is a classic member of a classic group: `worker` steps the table `connect-worker`, `cluster` runs workers on
the coordinator of this project (`wiring` lies between them), `picture` and `drawing` show a cluster over time.
`assignor` is what the leader of a group computes in each round, a pure function with an explicit memory; `dialect`
tells what Kafka ships from what the document of the design says.

Source: KIP-415 and KIP-507; `IncrementalCooperativeAssignor`, `EagerAssignor`, `WorkerCoordinator`, `DistributedHerder`
of apache/kafka at 1eb7644, held against recordings of 4.3.1.
"""
