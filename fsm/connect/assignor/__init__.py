"""The leader's assignor: the computation of each round of a Connect group, a pure function with explicit memory."""
