"""Lines of JSON: any line gives the bytes of what it says, or is refused; valid records come back from their line."""

from bobbin.records import jsonl
from bobbin.records.jsonl import InvalidLine
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import validate


def one_input(data: bytes) -> None:
    try:
        raw = jsonl.decode(data)
    except InvalidLine:
        return
    try:
        record = validate(raw)
    except InvalidRecord:
        return
    assert jsonl.decode(jsonl.encode(record)) == raw
