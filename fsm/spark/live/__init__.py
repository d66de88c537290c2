"""The audit of logs that grow, in batches: on Spark's Structured Streaming, or in this process.

`plan` says how far each file is read next, `reading` reads it there, `fsm.audit.live` judges, `sink` writes what
changed, exactly once. `local` drives all of it in a loop, `query` on Spark.
"""
