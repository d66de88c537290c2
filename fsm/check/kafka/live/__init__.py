"""Counterexamples replayed on live objects with a clock, and the traces they leave."""
