"""The audit of growing logs in batches, with Spark's Structured Streaming or in this process.

`plan` decides how far each file is read next, `reading` reads it, `fsm.audit.live` judges, `sink` writes the changes
exactly once. `local` runs all of it in a loop, `query` on Spark.
"""
