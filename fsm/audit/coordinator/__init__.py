"""What the coordinator's own log adds to findings that rest on the clients' logs."""
