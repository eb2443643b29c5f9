"""What a person should know about a node: counted always, written down within bounds."""

import json
from pathlib import Path
from typing import Any

import structlog

from bobbin.cluster.names import NodeId
from bobbin.runtime.admission import MINUTE_NS
from bobbin.runtime.cluster_alarms import ALARMS_PER_MINUTE, Alarms
from bobbin.runtime.cluster_audit import Audit

_NODE = NodeId("a" * 32)


class _Scene:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "audit.jsonl"
        self.now_ns = 5
        self.alarms = Alarms(_NODE, Audit(self.file), structlog.get_logger(), lambda: self.now_ns)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text("utf-8").splitlines()]


def test_an_alarm_is_counted_and_in_the_audit_log(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)
    scene.alarms.note("two-leaders", "of term 3")
    assert scene.alarms.counts == {"two-leaders": 1}
    (line,) = scene.lines()
    assert (line["kind"], line["to"], line["node"], line["detail"]) == ("alarm", "two-leaders", _NODE, "of term 3")


def test_of_one_kind_only_so_many_a_minute_are_written_down_and_all_are_counted(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)
    for _ in range(ALARMS_PER_MINUTE + 5):
        scene.alarms.note("two-leaders", "")
    scene.alarms.note("removed", "")
    assert scene.alarms.counts == {"two-leaders": ALARMS_PER_MINUTE + 5, "removed": 1}
    assert [line["to"] for line in scene.lines()] == ["two-leaders"] * ALARMS_PER_MINUTE + ["removed"]
    scene.now_ns += MINUTE_NS - 1
    scene.alarms.note("two-leaders", "")
    assert len(scene.lines()) == ALARMS_PER_MINUTE + 1
    scene.now_ns += 1
    scene.alarms.note("two-leaders", "again")
    assert scene.lines()[-1]["detail"] == "again"
