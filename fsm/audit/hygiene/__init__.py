"""Hygiene: from the files of a group to one ordered stream of records for each process, each with what is certain.

All knowledge of damage lives here: which process wrote a line, lines that were collected twice or stand in a wrong
place, rotated files that are missing, logs that are spread over several files, processes that began or ended without a
word. What follows the streams asks about none of that: it gets `rows.Known` records, and is told when a process begins
and ends.
"""
