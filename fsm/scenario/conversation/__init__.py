"""A member in conversation with a scripted coordinator: its client process, what is answered, what is seen of it."""
