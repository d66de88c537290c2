"""What differs among releases of the Java client, as named choices."""
