"""The online migration of a group: as the design document tells it, and as the coordinator does it.

`view` is what both show after each step; `document` has the document's rules, `shipped` drives the coordinator.
"""
