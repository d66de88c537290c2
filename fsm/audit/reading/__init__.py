"""From pieces of files to the records of groups: scanned, packed, routed, and what was not understood."""
