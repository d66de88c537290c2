"""Members of groups, without IO: `consumer` is the KIP-848 member, `shell` what an application embeds.

Nothing here reads a clock, draws a random number, starts a thread or opens a socket: time and jitter are
arguments, effects are returned, and the embedding carries them out.
"""
