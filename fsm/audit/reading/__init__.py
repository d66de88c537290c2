"""From pieces of files to the records of groups: scanning, packing, routing, and reports of unparsed lines."""
