"""A member in conversation with a scripted coordinator: its client process, the answers, the observed results."""
