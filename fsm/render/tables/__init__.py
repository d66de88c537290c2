"""Tables as diagrams and pages: one model of a picture (`graph`), and a renderer for each language."""
