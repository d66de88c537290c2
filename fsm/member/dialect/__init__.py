"""The differences between releases of the Java client, as named choices."""
