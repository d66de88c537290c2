"""Classic groups: member, coordinator, the group as a model, and its replay on live objects."""
