"""Every machine of the protocols, one module each: State, Event, Effect and TABLE."""
