"""Whole Connect clusters under a virtual clock, with an observer, and their pictures."""
