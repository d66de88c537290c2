"""Evidence from the coordinator's records for findings from clients' logs."""
