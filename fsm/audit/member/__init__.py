"""From one member's ordered records to rows and findings."""
