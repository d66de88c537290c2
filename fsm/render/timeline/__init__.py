"""States and ownership of members over time, as SVG."""
