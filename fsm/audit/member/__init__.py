"""One member's records, in order, become rows and findings."""
