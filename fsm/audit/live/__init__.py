"""The incremental audit of growing files.

`growth` reads the new part of a file, `member_state` continues the audit of a member from its saved state (`blobs`),
`group_state` judges a group from its members' rows and keeps those that still matter, and `changes` compares findings
with their last versions. Nothing here waits or imports Spark.
"""
