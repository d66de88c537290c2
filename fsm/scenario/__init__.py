"""Scenarios: YAML files that are run step by step, every expectation compared, under any dialect of their machines.

`replay` runs a file or a text; `kinds` holds a module for each kind of scenario, found by what a document holds.
"""
