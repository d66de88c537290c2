"""Whole Connect clusters under a virtual clock, what an observer sees of them, and their pictures."""
