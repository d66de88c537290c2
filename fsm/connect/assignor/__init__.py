"""The leader's assignor: what each round of a Connect group computes, a pure function with an explicit memory."""
