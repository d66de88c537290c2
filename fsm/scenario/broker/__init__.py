"""The coordinator in a scenario: requests as they are written, answers and groups as they are shown."""
