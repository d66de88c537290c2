"""The inputs and effects of a Connect worker.

The runtime carries out the effects in order and passes back the results: an answer to each request, the end of stops
and starts that the worker waits for, the content of the config topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from fsm.connect.assignor.leader import ConfigSnapshot
from fsm.connect.units import Units
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.messages import ClassicRequest, ClassicResponse, TransportFailure
from fsm.tables.connect_worker import Event, State


class Change(Enum):
    """The change by a record of the config topic."""

    CONFIG = "a connector's config is new or another"
    REMOVED = "a connector is gone"
    TASKS = "the configs of a connector's tasks"
    PAUSED_OR_RESUMED = "the user pauses or resumes a connector"
    STOPPED = "the user stops a connector: it keeps its instance and has no tasks"

    __hash__ = object.__hash__


class ConfigChange(NamedTuple):
    """One change, by the connector it is about."""

    connector: str
    what: Change


@dataclass(frozen=True, slots=True)
class Start:
    """The process starts; its internal topics have been read to their ends."""

    snapshot: ConfigSnapshot


@dataclass(frozen=True, slots=True)
class Stop:
    """The process is asked to stop."""


@dataclass(frozen=True, slots=True)
class ThreadFailed:
    """The worker's thread met an unhandled exception."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the request of that number, or how it failed; every request gets one."""

    number: int
    answer: ClassicResponse | TransportFailure


@dataclass(frozen=True, slots=True)
class UnitsStopped:
    """The requested stops with `wait` have ended; a task that outlives its graceful timeout counts as ended."""


@dataclass(frozen=True, slots=True)
class UnitsStarted:
    """The requested starts have ended."""


@dataclass(frozen=True, slots=True)
class ConfigTopicAdvanced:
    """The config topic was read further, in the background."""

    snapshot: ConfigSnapshot
    changes: tuple[ConfigChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadToEnd:
    """The config topic was read to its end, as requested."""

    snapshot: ConfigSnapshot


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """The user requests a restart of these units, wherever they are; every worker gets the request."""

    units: Units


WorkerInput = (
    Start
    | RestartRequested
    | Stop
    | ThreadFailed
    | Answered
    | UnitsStopped
    | UnitsStarted
    | ConfigTopicAdvanced
    | ReadToEnd
    | CoordinatorFound
    | CoordinatorLost
    | Tick
)


# Effects.


@dataclass(frozen=True, slots=True)
class Send:
    """Send `body` to the coordinator and give the answer back under the number."""

    number: int
    body: ClassicRequest


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look for the coordinator until it is found."""


@dataclass(frozen=True, slots=True)
class ReadConfigToEnd:
    """Read the config topic to its end; answered by `ReadToEnd`, however late."""


@dataclass(frozen=True, slots=True)
class StopUnits:
    """Stop these units, each within the graceful timeout."""

    units: Units
    wait: bool = False
    """The worker waits for `UnitsStopped`."""


@dataclass(frozen=True, slots=True)
class StopEverything:
    """Stop every connector and task of the process, held or not."""


@dataclass(frozen=True, slots=True)
class StartUnits:
    """Start these units where they do not run yet; the worker waits for `UnitsStarted`."""

    units: Units


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """Continue when the status updates are stored."""


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Restart the instance of the connector with its new config."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartUnits:
    """Stop these units and start them again."""

    units: Units


@dataclass(frozen=True, slots=True)
class ApplyTargetState:
    """Apply the state that the user wants to the local units of the connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class HerderEnded:
    """The worker's thread has died of an error; nothing was stopped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A row of the table was taken, or an event ignored."""

    source: State
    event: Event
    target: State


WorkerEffect = (
    Send
    | FindCoordinator
    | ReadConfigToEnd
    | StopUnits
    | StopEverything
    | StartUnits
    | FlushStatuses
    | RestartConnector
    | RestartUnits
    | ApplyTargetState
    | HerderEnded
    | Taken
)
