"""The audit: what trace records of a fleet mean, as pure functions over records and rows.

Four stages, each of which can run distributed, because each needs only what its key brings together:

* `identity`: which member a record belongs to (key: group and client id, over a few facts per file);
* `member`: one member's records in order become rows (key: group and member);
* `group`: rows of several members are held against each other (key: group);
* `findings`: what is reported, in which words and which order.

`local` runs them in one process. Nothing here knows Spark, and below `local` nothing reads a file.
"""
