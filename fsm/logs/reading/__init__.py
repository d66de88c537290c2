"""Opens files, cuts them into pieces and reads them block by block into entries."""
