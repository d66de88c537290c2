"""Models of Kafka's own protocols, made of the member and the coordinator that run elsewhere."""
