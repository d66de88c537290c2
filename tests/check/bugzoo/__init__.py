"""Real bugs of Kafka and its clients, planted in what runs here."""
