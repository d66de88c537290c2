"""The properties of a group with members of any protocol: safety, and that it becomes stable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations, starmap
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import numpy as np

from fsm.check.kafka.application import BROKER
from fsm.check.kafka.topics import CLUSTER, Topics
from fsm.check.model import Goal, Property, View
from fsm.coordinator.model.consumer_group import LEAVE_GROUP_STATIC_MEMBER_EPOCH

if TYPE_CHECKING:
    from fsm.check.model import Integers, Mask


class GroupProperties:
    """The properties of a whole group, over columns."""

    def __init__(self, names: Sequence[str], known: Topics, *, resubscribes: bool = False) -> None:
        """`resubscribes` if not all members always subscribe to all topics."""
        self.names, self.resubscribes = names, resubscribes
        # No `Topics`, which has a cache: properties are pickled for tasks of Spark.
        self._changes, self._first, self._anew = known.change, known.everything(()), known.anew

    def everything(self, view: View) -> Integers | int:
        """The mask of all subscribed partitions in each state."""
        found = self._existing(view)
        if not self.resubscribes:
            return found
        wanted = (np.where(view.of(name, "wants") == 1, view.of(name, "subscribed"), 0) for name in self.names)
        return reduce(or_, wanted) & found

    def _existing(self, view: View) -> Integers | int:
        return view.of(CLUSTER, "everything") if self._changes else self._first

    def properties(self) -> list[Property]:
        """The properties of every state."""
        return [
            Property(
                "members use only assigned partitions",
                self._client_safety,
                "a member in good standing uses only partitions that the coordinator records as held by it",
            ),
            Property(
                "no partition has two users",
                self._one_user,
                "no partition is used by two applications whose members are in good standing",
            ),
            Property(
                "no partition is assigned twice",
                self._one_holder,
                "the coordinator records no partition as held by two members",
            ),
            Property("no error ends an application", self._nobody_crashes, "no application is terminated by an error"),
            *self._of_subscriptions(),
            *self._of_requests(),
        ]

    def _of_subscriptions(self) -> list[Property]:
        """The properties if subscriptions change."""
        meaning = "an application gets no records of a topic that it no longer subscribes to"
        return (
            [Property("members use only subscribed topics", self._uses_its_own, meaning)] if self.resubscribes else []
        )

    def _of_requests(self) -> list[Property]:
        """The property of requests of consumers of KIP-848."""
        meaning = "a client takes a request for unanswered only while it or its answer is under way"
        return [Property("an answer that is awaited is under way", self._awaits_what_comes, meaning)]

    def _awaits_what_comes(self, view: View) -> Mask:
        def holds(name: str) -> Any:
            comes = view.on(name, BROKER, "line") + view.on(BROKER, name, "line")
            return (view.of(name, "ended") == 1) | (view.of(name, "awaits") <= comes)

        return self._all(holds)

    def goal(self) -> Goal:
        meaning = (
            "without further disturbances, every member eventually uses its assignment, and every partition is used"
        )
        return Goal("the group settles", self._is_settled, ("rebalance_timeout",), meaning)

    def is_silent(self, name: str, life: int, view: View) -> Mask:
        """Whether a process sends nothing more: it has ended, or is silent."""
        now = view.of(name, "life")
        quiet = (view.of(name, "silent") == 1) & (view.on(name, BROKER, "line") == 0)
        silent: Mask = (now > life) | ((now == life) & ((view.of(name, "ended") == 1) | quiet))
        return silent

    def _stands_well(self, view: View, name: str) -> Mask:
        """Whether the coordinator knows the member under the client's present or previous epoch."""
        epoch = view.of(name, "epoch")
        is_known = (epoch == view.of(BROKER, f"epoch {name}")) | (epoch == view.of(BROKER, f"previous {name}"))
        stands: Mask = (view.of(BROKER, f"member {name}") == 1) & (epoch > 0) & is_known
        return stands

    def _all(self, holds: Callable[[str], Mask]) -> Mask:
        """Whether something holds for all members."""
        return reduce(and_, map(holds, self.names))

    def _any(self, holds: Callable[[str], Mask]) -> Mask:
        """Whether something holds for any member."""
        return reduce(or_, map(holds, self.names))

    def _all_pairs(self, view: View, holds: Callable[[str, str], Mask]) -> Mask:
        """Whether something holds for any two members."""
        return reduce(and_, starmap(holds, combinations(self.names, 2)), np.ones(len(view), np.bool_))

    def _client_safety(self, view: View) -> Mask:
        def holds(name: str) -> Any:
            stray = view.of(name, "uses") & ~view.of(BROKER, f"holds {name}")
            return (stray == 0) | ~self._stands_well(view, name)

        return self._all(holds)

    def _one_user(self, view: View) -> Mask:
        def holds(one: str, other: str) -> Any:
            both = (view.of(one, "uses") & view.of(other, "uses")) != 0
            return ~(both & self._stands_well(view, one) & self._stands_well(view, other))

        return self._all_pairs(view, holds)

    def _one_holder(self, view: View) -> Mask:
        return self._all_pairs(
            view, lambda one, other: (view.of(BROKER, f"holds {one}") & view.of(BROKER, f"holds {other}")) == 0
        )

    def _uses_its_own(self, view: View) -> Mask:
        return self._all(
            lambda name: (view.of(name, "wants") == 0) | (view.of(name, "using") & ~view.of(name, "subscribed") == 0)
        )

    def _nobody_crashes(self, view: View) -> Mask:
        return self._all(lambda name: view.of(name, "crashed") == 0)

    def _is_settled(self, view: View) -> Mask:
        good = view.of(BROKER, "rests") == 1
        used, anybody = np.zeros(len(view), np.int64), np.zeros(len(view), np.bool_)
        for name in self.names:
            using, wants = view.of(name, "using"), view.of(name, "wants") == 1
            member = view.of(BROKER, f"member {name}") == 1
            has_it = using == view.of(BROKER, f"assigned {name}")
            has_it &= view.of(name, "epoch") == view.of(BROKER, f"epoch {name}")
            if self.resubscribes:
                subscribed = view.of(name, "subscribed")
                has_it &= (using & ~subscribed) == 0
                has_it &= (subscribed ^ view.of(BROKER, f"subscribed {name}")) & self._existing(view) == 0
            good &= (view.of(name, "rests") == 1) & np.where(wants, member & has_it, ~member)
            used |= np.where(wants, using, 0)
            anybody |= wants
        settled: Mask = good & (~anybody | (used == self.everything(view)))
        return settled

    def uses_anew(self, view: View) -> Mask:
        """Whether a member uses partitions of a recreated topic that it was assigned under the old id."""
        return self._any(lambda name: (view.of(name, "uses") & ~view.of(BROKER, f"holds {name}") & self._anew) != 0)

    def restarts_twice(self, view: View) -> Mask:
        """Whether a second process of the same or another consumer has started again: most states lie beyond."""
        lives: Integers = np.sum([view.of(name, "life") for name in self.names], axis=0)
        return lives > 1

    def is_unreleased(self, view: View) -> Mask:
        """Whether a killed static member returns before its session ends: UNRELEASED_INSTANCE_ID ends it."""

        def shows(name: str) -> Any:
            is_other = self._is_other_process(view, name) & (view.on(name, BROKER, "consumer joins") > 0)
            return is_other & (view.of(BROKER, f"epoch {name}") != LEAVE_GROUP_STATIC_MEMBER_EPOCH)

        return self._any(shows)

    def _is_other_process(self, view: View, name: str) -> Mask:
        """Whether the coordinator's member belongs to another process than the running one."""
        is_other = view.of(BROKER, f"life {name}") != view.of(name, "life")
        found: Mask = is_other & (view.of(BROKER, f"member {name}") == 1)
        return found

    def w1(self, view: View) -> Mask:
        """W1: whether partitions that a report left out because they were unused are revoked and used nevertheless."""
        stray_known, stray_other, begins = (np.zeros(len(view), np.bool_) for _ in range(3))
        for name in self.names:
            good, free = self._stands_well(view, name), ~view.of(BROKER, f"held {name}")
            omits = view.of(name, "omitted") | view.on(name, BROKER, "omitted") | view.on(BROKER, name, "omitted")
            stray = view.of(name, "using") & free
            stray_known |= good & (stray != 0)
            stray_other |= good & ((stray & ~omits) != 0)
            begins |= good & ((view.of(name, "begins") & free) != 0)
        return (stray_known & ~stray_other) | begins
