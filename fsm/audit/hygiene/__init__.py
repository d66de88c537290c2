"""Hygiene: from the files of a group to one ordered stream of records per process, each record with its certainty.

It handles all damage of logs: which process wrote a line, duplicate and misplaced lines, missing rotated files, logs
that are spread over several files, processes without a logged start or end. Followers of the streams get only
`rows.Known` records and the begin and end of each process.
"""
