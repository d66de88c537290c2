"""Models of Kafka's own protocols, made of the production members and coordinator."""
