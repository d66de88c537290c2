"""Connect clusters: worker processes, the config topic, the cluster as a model, and its replay on live objects."""
