"""The group coordinator without IO: what it decides about consumer groups, their members and their partitions.

Everything here is a function over frozen values: requests and instants go in, records, responses and deadlines come
out. Nothing reads a clock, draws a random number or opens a socket.
"""
