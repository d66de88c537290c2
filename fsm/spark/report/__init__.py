"""What an audit writes: evidence, the JSON document, the HTML page."""
