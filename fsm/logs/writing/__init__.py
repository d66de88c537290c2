"""Trace records written as the lines that programs would have printed: the way back of `fsm.logs.programs`."""
