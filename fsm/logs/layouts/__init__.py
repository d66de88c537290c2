"""What stands around a program's messages: time stamps, headers, frames, fields, ends."""
