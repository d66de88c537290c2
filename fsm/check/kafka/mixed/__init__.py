"""Groups with members of both protocols: the member that changes its protocol, and the group as a model."""
