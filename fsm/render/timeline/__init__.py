"""Who was in which state and owned what, over time, as SVG."""
