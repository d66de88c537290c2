"""From paths to records: files, pieces, parsing, and what was not understood."""
