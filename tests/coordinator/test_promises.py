"""The promises that random walks are held against see what they are there for."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from classic_scene import ClassicScene
from promises import broken, downgrade, sizes, upgrade

from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.tables.classic_group import State


def one_member() -> ClassicScene:
    """A stable classic group of c, which has foo 0 and 1, in generation 1."""
    scene = ClassicScene()
    (member_id,) = scene.enter("c")
    scene.share(member_id, 1, assigns={member_id: {"foo": [0, 1]}})
    assert scene.states == "Stable"
    return scene


def test_an_upgrade_that_takes_something_away_is_seen() -> None:
    """29: a former member without its partitions, or an epoch that is not the generation's."""
    scene = one_member()
    before = scene.classic
    scene.join("m1", "foo")
    after = scene.group
    assert list(upgrade(before, after, scene.context)) == []
    (member_id,) = before.members
    assert len(list(upgrade(replace(before, generation=7), after, scene.context))) == 2
    member = replace(before.members[member_id], assignment=b"")
    assert len(list(upgrade(replace(before, members=before.members.set(member)), after, scene.context))) == 1


def test_a_downgrade_to_another_generation_is_seen() -> None:
    """30: the group epoch is the generation, a rebalance is prepared, and members have their targets."""
    scene = one_member()
    scene.join("m1", "foo")
    before = scene.group
    scene.beat("m1", -1)
    after = scene.classic
    assert list(downgrade(before, after, scene.context)) == []
    assert len(list(downgrade(before, replace(after, generation=9), scene.context))) == 1
    assert len(list(downgrade(before, replace(after, state=State.STABLE), scene.context))) == 1
    assert (
        len(list(downgrade(replace(before, targets=before.targets.without(*after.members)), after, scene.context))) == 1
    )


def test_a_group_over_its_limit_is_seen() -> None:
    """14: only the step that made it so."""
    scene = one_member()
    before = scene.classic
    scene.join("m1", "foo")
    config = replace(scene.context.config, group_consumer_max_size=1)
    context = replace(scene.context, config=config)
    assert list(sizes(before, scene.group, context)) == ["14 2 members, allowed are 1"]
    assert list(sizes(scene.group, scene.group, context)) == []


def test_a_member_that_is_not_told_is_seen() -> None:
    """31: a classic member that is behind the target but counts as current."""
    scene = one_member()
    scene.join("m1", "foo")
    assert isinstance(scene.state.groups["g"], ConsumerGroup)
    assert broken(scene, Random(1)) == []  # noqa: S311
    (member_id,) = (i for i, member in scene.group.members.items() if member.is_classic)
    assert scene.pulse(member_id, 1) == "rebalance_in_progress"
