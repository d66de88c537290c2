"""The rules of `fsm.audit` over Spark frames: members, groups, tables, the coordinator."""
