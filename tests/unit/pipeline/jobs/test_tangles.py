"""The job ``tangles``: what a node would say of each tangle, from the records of a lake."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from bobbin.pipeline.jobs import tangles
from bobbin.pipeline.jobs.tangles import SHOWN_MAX, SurveyedTangle
from bobbin.store.lake.lake import Lake
from bobbin.tangles.message import Message
from bobbin.tangles.plex import plex_of
from bobbin.tangles.tangle import Tangle
from tests.support.lakes import some_records, store
from tests.support.tangle_messages import Author

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def population(seed: int) -> list[Message]:
    """Two authors with feeds, and a thread with forks; some messages are left out."""
    random = Random(seed)
    authors = [Author("alice"), Author("bob")]
    feeds = [author.moot() for author in authors]
    thread = authors[0].root({"text": "topic"}, "thread")
    authors[1].sees(thread)
    messages = [author.account for author in authors] + feeds + [thread]
    for number in range(60):
        at = random.randrange(2)
        roots = [feeds[at].id, thread.id] if random.random() < 0.4 else [feeds[at].id]
        messages.append(authors[at].post(roots, {"text": f"{number}"}))
        if random.random() < 0.3:
            authors[1 - at].sees(messages[-1])
    return [message for message in messages if random.random() < 0.9]


def expected(messages: Sequence[Message]) -> dict[str, SurveyedTangle]:
    """The same by the structure of each tangle, one after the other."""
    roots = {root for message in messages for root in message.places}
    roots |= {message.id for message in messages if message.is_root}
    found = {}
    for root in roots:
        tangle = Tangle(root, messages)
        grounded = tangle.descendants([root]) | {root} if tangle.root is not None else set()
        missing = sorted(tangle.missing_predecessors())
        named = {before for id in tangle for before in tangle.prev(id)}
        tips = sorted(id for id in tangle if id not in named)
        found[root] = SurveyedTangle(
            tangle=root,
            messages=len(tangle),
            depth=tangle.max_depth,
            have=None if tangle.root is None else (0, tangle.max_depth_with_data()),
            tips=tuple(tips[:SHOWN_MAX]),
            tip_count=len(tips),
            missing=tuple(missing[:SHOWN_MAX]),
            missing_count=len(missing),
            wrong_depth=0,
            adrift=len(set(tangle) - grounded),
        )
    return found


def put(lake: Lake, messages: Sequence[Message]) -> None:
    store(lake, [plex for message in messages if (plex := plex_of(message)) is not None])


@pytest.mark.slow
def test_a_lake_is_told_as_a_node_would(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    messages = population(1)
    put(lake, messages)
    store(lake, some_records(20, 1))
    survey = tangles.run(spark, lake)
    assert survey.complete
    found = list(survey.tangles())
    assert [one.tangle for one in found] == sorted(one.tangle for one in found)
    assert {one.tangle: one for one in found} == expected(messages)


@pytest.mark.slow
def test_wrong_depths_and_too_few_rounds(spark: "SparkSession", tmp_path: Path) -> None:
    alice = Author("alice")
    feed = alice.feed(12)
    wrong = alice.sign(
        {"text": "wrong"},
        {
            "account": alice.account.id,
            "accountTips": [alice.account.id],
            "tangles": {feed[0].id: {"depth": 9, "prev": [feed[1].id]}},
            "domain": "post",
        },
    )
    lake = Lake.create(tmp_path / "lake")
    put(lake, [alice.account, *feed, wrong])
    whole = tangles.run(spark, lake)
    (found,) = [one for one in whole.tangles() if one.tangle == feed[0].id]
    assert (found.wrong_depth, found.adrift, found.tip_count, whole.complete) == (1, 0, 2, True)
    assert whole.rounds < len(feed), "far links shorten the way"
    short = tangles.run(spark, lake, rounds_max=1)
    (found,) = [one for one in short.tangles() if one.tangle == feed[0].id]
    assert not short.complete
    assert found.adrift > 0


@pytest.mark.slow
def test_a_lake_without_messages(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    survey = tangles.run(spark, lake)
    assert (list(survey.tangles()), survey.rounds, survey.complete) == ([], 0, True)
