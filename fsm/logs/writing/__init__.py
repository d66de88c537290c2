"""Writes trace records as log lines of the programs that produced them: the inverse of `fsm.logs.programs`."""
