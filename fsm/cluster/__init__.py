"""Members and their coordinator as one system: the machines that run elsewhere, a lossy channel, one virtual clock."""
