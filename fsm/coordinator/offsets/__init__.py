"""Committed offsets: commits, transactions, expiry, deletion."""
