"""Settings of a conversation's member: what cannot be read is said with its line and its name."""

from __future__ import annotations

import pytest

from fsm.errors import InputError
from fsm.nodes import yaml_node
from fsm.scenario.files import replay_document


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("max_poll_interval_ms: abc", "talk.yaml:3: max_poll_interval_ms: 'abc' is not a whole number"),
        ("enable_auto_commit: 1", "talk.yaml:3: enable_auto_commit: '1' is neither yes nor no"),
        ("client_id: [c]", "talk.yaml:3: client_id: must be text"),
        ("group_id: ~", "talk.yaml:3: group_id must be text, not None"),
    ],
)
def test_a_setting_of_a_wrong_kind_is_named(config: str, error: str) -> None:
    """A value that is no number, no flag or no text does not leave its setting to be guessed."""
    document = yaml_node(f"conversation: x\nconfig:\n  {config}\nsteps: [poll]\n", "talk.yaml", "scenario")
    with pytest.raises(InputError) as raised:
        list(replay_document(document, "talk.yaml", None))
    assert str(raised.value) == error
