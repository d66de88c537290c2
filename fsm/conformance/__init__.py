"""A coordinator held against Kafka: recordings of real brokers, walks made up by seed, and how two steps are compared.

`recorded_walk` follows a recording with our coordinator; `live_walk` holds a peer (ours, or a broker on a socket)
against it, request by request.
"""
