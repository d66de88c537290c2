"""Files opened, cut into pieces and read block by block into entries."""
