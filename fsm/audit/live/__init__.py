"""The audit while it happens: files that grow, members that are followed on, and what changed.

`growth` reads a file on from where it was read last, `member_state` follows a member on and keeps it as `blobs`,
`group_state` holds what members told against each other, `settling` says which of it counts when it is long over, and
`changes` which findings were opened, changed and closed. Nothing here waits, and nothing knows Spark.
"""
