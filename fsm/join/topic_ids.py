"""Topics of offsets by id, as requests have them since version 10, and by name, as members have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fsm.protocol.assignment import NO_TOPIC_ID
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

LAST_BY_NAME: Mapping[type[Any], int] = {OffsetCommitRequest: 9, OffsetFetchRequest: 9}
"""The newest versions of requests with topic names."""


def identify(request: Any, ids: Mapping[str, str]) -> tuple[Any, int | None]:
    """The request with topic ids, and the newest version in which it can be sent; None: any.

    >>> from fsm.protocol.messages import commit_topics
    >>> offsets = ((("foo", 0), 7),)
    >>> request, newest = identify(OffsetCommitRequest("g", topics=commit_topics(offsets)), {"foo": "some id"})
    >>> request.topics[0].topic_id, newest
    ('some id', None)
    >>> identify(request, {})[1]
    9
    """

    def add_ids(topics: tuple[Any, ...] | None) -> tuple[Any, ...]:
        return tuple(topic._replace(topic_id=ids.get(topic.name, NO_TOPIC_ID)) for topic in topics or ())

    if isinstance(request, OffsetCommitRequest):
        request = replace(request, topics=add_ids(request.topics))
        topics = request.topics
    elif isinstance(request, OffsetFetchRequest):
        groups = tuple(group._replace(topics=add_ids(group.topics)) for group in request.groups)
        request = replace(request, groups=groups)
        topics = tuple(topic for group in groups for topic in group.topics or ())
    else:
        return request, None
    is_known = all(topic.topic_id != NO_TOPIC_ID for topic in topics)
    return request, None if is_known else LAST_BY_NAME[type(request)]


def name_topics(answer: Any, ids: Mapping[str, str]) -> Any:
    """The answer with topic names instead of ids."""
    if not isinstance(answer, OffsetCommitResponse | OffsetFetchResponse):
        return answer
    names = {topic_id: name for name, topic_id in ids.items()}

    def rename(topics: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(topic._replace(name=topic.name or names.get(topic.topic_id, "")) for topic in topics)

    if isinstance(answer, OffsetCommitResponse):
        return replace(answer, topics=rename(answer.topics))
    groups = tuple(group._replace(topics=rename(group.topics)) for group in answer.groups)
    return replace(answer, groups=groups)
