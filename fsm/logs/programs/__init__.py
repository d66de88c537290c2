"""What programs log and store: clients, brokers, Connect workers, `__consumer_offsets`, traces.

Each module has a `CLIENT` or `FORMATS`, and a client's module has `FACTS`; `fsm.logs` collects them sorted by module
name.
"""
