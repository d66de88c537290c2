"""What programs print and store: clients, brokers, Connect workers, `__consumer_offsets`, traces.

Each has its `CLIENT` or `FORMATS`, and a client its `FACTS`; `fsm.logs` collects them in the order of module names.
"""
