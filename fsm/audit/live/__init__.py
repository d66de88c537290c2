"""The audit while it happens: files that grow, groups that are judged again when something new came, and what changed.

`growth` reads a file on from where it was read last, `group_state` keeps what a group was told and judges it, `changes`
says which findings were opened, changed and closed. Nothing here waits, and nothing knows Spark.
"""
