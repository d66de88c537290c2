"""Exported or damaged files whose entries are not lines: tables, dumps, documents and encoded texts."""
