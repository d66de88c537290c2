"""The Connect worker without IO: `step` and its decisions."""
