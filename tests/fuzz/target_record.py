"""Records: both opinions on any bytes agree, also when every digest and the signature are made to fit."""

from collections.abc import Callable

from bobbin.facts.extract import extract
from bobbin.records.diagnose import diagnose
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, read_trusted, validate
from tests.unit.records.forge import refit


def one_input(data: bytes) -> None:
    _agree(data)
    _agree(refit(data))


def _agree(raw: bytes) -> None:
    failure, refusal = diagnose(raw), _refusal(validate, raw)
    if failure is not None:
        assert refusal is not None
        assert (refusal.reason, refusal.offset) == (failure.reason, failure.offset)
        _refusal(read_trusted, raw)
        return
    assert refusal is None
    record = validate(raw)
    assert record.raw == raw
    assert validate(raw, requested=record.hash) == record == read_trusted(raw)
    assert all(len(value.encode()) <= 4096 for _, values in extract(record) for value in values)


def _refusal(read: Callable[[bytes], Record], raw: bytes) -> InvalidRecord | None:
    try:
        assert read(raw).raw == raw
    except InvalidRecord as refusal:
        return refusal
    return None
