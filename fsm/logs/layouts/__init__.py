"""The layout around a program's messages: timestamps, headers, frames, fields and line endings."""
