"""One module for each kind of scenario; `fsm.scenario.replay` finds them."""
