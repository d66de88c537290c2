"""The Connect worker without IO: `step` and what it decides."""
