"""Small models as examples for checking your own protocol."""
