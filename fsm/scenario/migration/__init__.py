"""The online migration of a group: by the design document, and by the coordinator.

`view` is the state of both after each step; `document` has the document's rules, `shipped` drives the coordinator.
"""
