"""Files whose entries are not lines: tables, dumps, documents and texts that some tool exported or broke."""
