"""Recordings: everything that one machine was told, read and did, in a file that can be replayed bit for bit.

A machine has no clock, no chance and no memory but its own, so three things make a run: the configuration, the events
with their times, and what the steps read through ``Holdings``. A recording holds them and, beside them, the effects.
``replay`` gives a new machine the same, step by step, and says where it asks for something else or does something else.

The file is a first line with the version, then frames: four bytes of length, eight of a digest, a MessagePack value.
Each step is one frame, written at once. A file that ends within a frame (a crash, a full disk) is good up to there. It
holds the bytes of the records that went over the link, so it is as private as they are. Its size is bounded: beyond it
nothing more is recorded, and the exchange goes on.

A recorded exchange neither starts from the memory that earlier ones have left in this process nor leaves one
(``Forgetful``); the cursor is an answer like any other and is recorded.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from types import ModuleType
from typing import BinaryIO, Final, TypeAlias

import msgspec
from blake3 import blake3
from msgspec import Struct

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.interlace import choice as choice_module
from bobbin.interlace import config as config_module
from bobbin.interlace import cursor as cursor_module
from bobbin.interlace import effects as effects_module
from bobbin.interlace import events as events_module
from bobbin.interlace import limits as limits_module
from bobbin.interlace import messages as messages_module
from bobbin.interlace import ports as ports_module
from bobbin.interlace import reasons as reasons_module
from bobbin.interlace import reconciliation as reconciliation_module
from bobbin.interlace import result as result_module
from bobbin.interlace import schema as schema_module
from bobbin.interlace import setup as setup_module
from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.config import Config
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Effect, Ended, Notify, Persist, Remember, SaveCursor
from bobbin.interlace.events import Event, Now, Settled
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.ports import Evaluated, Holdings, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.policy import operands as operands_module
from bobbin.policy import runtime_facts as runtime_module
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy, PolicyCache
from bobbin.policy.modules import Selector, compile_selector
from bobbin.policy.operands import Index
from bobbin.policy.plan import Plan
from bobbin.runtime.pair import Performer

VERSION: Final = b"bobbin-recording/1\n"
BYTES_MAX: Final = 1024 * 1024 * 1024
FRAME_BYTES_MAX: Final = 512 * 1024 * 1024
_LENGTH: Final = 4
_DIGEST: Final = 8
_SHOWN_MAX: Final = 300

Packed: TypeAlias = "bool | int | str | bytes | list[Packed] | None"


class NoRecording(UsageError):
    """A file is not a recording that this version can read. Nothing was replayed."""


class Difference(Struct, frozen=True, kw_only=True):
    """Where a replay left the recording."""

    step: int
    """Counted from 1."""
    event: str
    what: str


class Replayed(Struct, frozen=True, kw_only=True):
    """How a replay went."""

    steps: int
    """Replayed and found equal."""
    difference: Difference | None
    ended: bool
    """Whether the recorded exchange came to its end."""
    is_full: bool
    """Whether the recording stopped at its size limit."""
    is_cut_off: bool
    """Whether the file ends within a frame, or with bytes that are none."""


# ---- values ---------------------------------------------------------------------------------------------------------

_STRUCT, _TUPLE, _SET, _MAPPING, _ENUM, _LIST, _SELECTOR, _MEMORY = range(8)


def _classes(*modules: ModuleType) -> dict[str, type]:
    found: dict[str, type] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Struct | Enum) and value.__module__ == module.__name__:
                assert name not in found, f"two classes are called {name}"
                found[name] = value
    return found


_CLASSES: Final[Mapping[str, type]] = {
    **_classes(
        choice_module,
        config_module,
        cursor_module,
        effects_module,
        events_module,
        limits_module,
        messages_module,
        ports_module,
        reasons_module,
        reconciliation_module,
        result_module,
        schema_module,
        setup_module,
    ),
    **_classes(operands_module, runtime_module),
    "ClaimedField": ClaimedField,
    "Plan": Plan,
}
"""Every kind of value that events, effects and answers are made of."""


def pack(value: object) -> Packed:
    """A value as MessagePack can hold it. Equal values have equal forms, in whatever order their sets are."""
    match value:
        case Enum() if _CLASSES.get(type(value).__name__) is type(value):
            return [_ENUM, type(value).__name__, str(value.value)]
        case StrEnum():
            # Of another layer, in a place that is for any text.
            return value.value
        case None | bool() | int() | str() | bytes():
            return value
        case bytearray() | memoryview():
            return bytes(value)
        case tuple():
            return [_TUPLE, [pack(item) for item in value]]
        case list():
            return [_LIST, [pack(item) for item in value]]
        case Selector():
            return [_SELECTOR, value.canonical]
        case Memory():
            return [_MEMORY]
        case Struct():
            name = type(value).__name__
            assert _CLASSES.get(name) is type(value), f"{name} cannot be recorded"
            return [_STRUCT, name, [pack(getattr(value, field)) for field in value.__struct_fields__]]
        case Mapping():
            pairs = sorted((str(key), pack(item)) for key, item in value.items())
            return [_MAPPING, [[key, item] for key, item in pairs]]
        case Collection():
            return [_SET, sorted((pack(item) for item in value), key=msgspec.msgpack.encode)]
        case _:
            raise AssertionError(f"{type(value).__name__} cannot be recorded")


def unpack(packed: object) -> object:
    """The value of a form. What no value has is ``NoRecording``."""
    if not isinstance(packed, list):
        return packed
    try:
        return _unpack(packed)
    except (ValueError, TypeError, KeyError, IndexError, BobbinError) as error:
        raise NoRecording(f"the recording holds something that is no value of this version: {error}") from error


def _unpack(packed: list[object]) -> object:
    match packed:
        case [code, [*items]] if code == _TUPLE:
            return tuple(map(unpack, items))
        case [code, [*items]] if code == _LIST:
            return list(map(unpack, items))
        case [code, [*items]] if code == _SET:
            return frozenset(map(unpack, items))
        case [code, [*items]] if code == _MAPPING:
            return dict(map(_unpack_pair, items))
        case [code, str(name), str(text)] if code == _ENUM:
            return _CLASSES[name](text)
        case [code] if code == _MEMORY:
            return "a memory"
        case [code, bytes(text)] if code == _SELECTOR:
            return compile_selector(text)
        case [code, str(name), [*values]] if code == _STRUCT:
            kind = _CLASSES[name]
            fields: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
            return kind(**dict(zip(fields, map(unpack, values), strict=True)))
        case _:
            raise ValueError("an unknown form")


def _unpack_pair(pair: object) -> tuple[object, object]:
    match pair:
        case [key, item]:
            return key, unpack(item)
        case _:
            raise ValueError("an unknown form")


def _digest(*values: object) -> bytes:
    return blake3(msgspec.msgpack.encode(pack(values))).digest(_DIGEST)


# ---- writing --------------------------------------------------------------------------------------------------------


class _Read(Struct, frozen=True, array_like=True):
    """One answer that a step got."""

    method: str
    asked: bytes
    """A digest of the arguments."""
    answer: msgspec.Raw
    error: tuple[str, str, str] | None = None
    """Instead of an answer: the kind of error, its code and its words."""


class _Step(Struct, frozen=True, array_like=True, tag="step"):
    tai_ns: int
    monotonic_ns: int
    event: msgspec.Raw
    reads: list[_Read]
    effects: msgspec.Raw
    raised: str | None = None


class _Begin(Struct, frozen=True, array_like=True, tag="begin"):
    config: msgspec.Raw


class _Full(Struct, frozen=True, array_like=True, tag="full"):
    """Nothing more was recorded: the next step would not have had room."""


_Frame: TypeAlias = _Begin | _Step | _Full


class Recorder:
    """Writes one recording. A disk that fails ends the recording, never the exchange."""

    def __init__(self, stream: BinaryIO, *, bytes_max: int = BYTES_MAX) -> None:
        self._stream: Final = stream
        self._bytes_max: Final = bytes_max
        self._reads: list[_Read] = []
        self.size = 0
        self.steps = 0
        self.failure: str | None = None
        """Why nothing more is recorded, if so."""

    def begin(self, config: Config) -> None:
        """The exchange that is recorded."""
        self._write(VERSION)
        self._frame(_Begin(_raw(config)))

    def read(self, method: str, asked: bytes, answer: object, error: tuple[str, str, str] | None = None) -> None:
        """A step got an answer."""
        if self.failure is None:
            self._reads.append(_Read(method, asked, _raw(answer), error))

    def step(self, event: Event, now: Now, effects: tuple[Effect, ...], raised: str | None = None) -> None:
        """A step was made."""
        reads, self._reads = self._reads, []
        if self.failure is not None:
            return
        self._frame(_Step(now.tai_ns, now.monotonic_ns, _raw(event), reads, _raw(effects), raised))
        self.steps += self.failure is None

    def _frame(self, frame: _Frame) -> None:
        body = msgspec.msgpack.encode(frame)
        whole = len(body).to_bytes(_LENGTH, "big") + blake3(body).digest(_DIGEST) + body
        if self.size + len(whole) > self._bytes_max or len(body) > FRAME_BYTES_MAX:
            body = msgspec.msgpack.encode(_Full())
            self._write(len(body).to_bytes(_LENGTH, "big") + blake3(body).digest(_DIGEST) + body)
            self.failure = self.failure or f"the recording has reached its limit of {self._bytes_max} bytes"
            return
        self._write(whole)

    def _write(self, data: bytes) -> None:
        if self.failure is not None:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            self.failure = f"the recording ends here: {error.strerror or error}"
        self.size += len(data)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(pack(value)))


class RecordingHoldings:
    """Holdings that write down what they answer."""

    def __init__(self, holdings: Holdings, recorder: Recorder) -> None:
        self._holdings = holdings
        self._recorder = recorder

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        # The policy follows from the arguments alone, so a replay makes it again.
        asked = _digest(plan, index, own, peer_module)
        try:
            policy = self._holdings.prepare(plan, index, own=own, peer_module=peer_module)
        except PeerError as error:
            self._recorder.read("prepare", asked, None, ("peer", error.code, str(error)))
            raise
        self._recorder.read("prepare", asked, None)
        return policy

    def module(self, identifier: str) -> bytes | None:
        answer = self._holdings.module(identifier)
        self._recorder.read("module", _digest(identifier), answer)
        return answer

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        memory = self._holdings.begin(policy, schema, None)
        assert memory is None, "without a key there is no memory"
        self._recorder.read("begin", _digest(policy.plan, schema, key), None)
        return None

    def evaluate(self, question: Question) -> Evaluated:
        asked = _digest(question)
        try:
            answer = self._holdings.evaluate(question)
        except LimitExceeded as error:
            self._recorder.read("evaluate", asked, None, ("limit", error.limit, str(error)))
            raise
        except ResourceError as error:
            self._recorder.read("evaluate", asked, None, ("resource", "", str(error)))
            raise
        self._recorder.read("evaluate", asked, answer)
        return answer

    def absent(self, records: Collection[str]) -> frozenset[str]:
        answer = self._ask("absent", frozenset(records))
        assert isinstance(answer, frozenset)
        return answer

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        # The order of the question decides that of the answer, and means nothing.
        asked = _digest(frozenset(records), schema)
        try:
            answer = self._holdings.describe(records, schema)
        except ResourceError as error:
            self._recorder.read("describe", asked, None, ("resource", "", str(error)))
            raise
        self._recorder.read("describe", asked, dict(zip(records, answer, strict=True)))
        return answer

    def expect(self, records: Sequence[str]) -> None:
        # Nothing is answered, so nothing is written down.
        self._holdings.expect(records)

    def load(self, record: str) -> bytes | None:
        answer = self._ask("load", record)
        assert answer is None or isinstance(answer, bytes)
        return answer

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        # It would only save work; without it a step reads the same in a replay.
        del schema
        return None

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        del records, schema, length  # as above
        return None

    def cursor(self, key: str) -> Cursor | None:
        answer = self._ask("cursor", key)
        assert answer is None or isinstance(answer, Cursor)
        return answer

    def _ask(self, method: str, *arguments: object) -> object:
        asked = _digest(*arguments)
        try:
            answer: object = getattr(self._holdings, method)(*arguments)
        except ResourceError as error:
            self._recorder.read(method, asked, None, ("resource", "", str(error)))
            raise
        self._recorder.read(method, asked, answer)
        return answer


class RecordedMachine(InterlaceMachine):
    """A machine whose steps are recorded. It behaves like any other."""

    def __init__(self, config: Config, holdings: Holdings, recorder: Recorder) -> None:
        super().__init__(config, RecordingHoldings(holdings, recorder))
        self._recorder = recorder
        recorder.begin(config)

    def step(self, event: Event, *, now: Now) -> tuple[Effect, ...]:
        try:
            effects = super().step(event, now=now)
        except (UsageError, AssertionError) as error:
            self._recorder.step(event, now, (), f"{type(error).__name__}: {error}")
            raise
        self._recorder.step(event, now, effects)
        return effects


class Forgetful:
    """Performs the effects of a recorded machine, all but those that keep a memory for the next exchange."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        return self._performer.persist(effect)

    def save(self, effect: SaveCursor) -> bool:
        return self._performer.save(effect)

    def remember(self, effect: Remember) -> None:
        """The exchange began without a memory, so it cannot say what it has changed since."""


# ---- replaying ------------------------------------------------------------------------------------------------------


class _Differs(Exception):
    """The machine asks for something else than it did."""


class _ReplayedHoldings:
    """Answers what was answered, as long as the same is asked."""

    def __init__(self) -> None:
        self.reads: list[_Read] = []
        self._policies = PolicyCache()

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        self._answer("prepare", plan, index, own, peer_module)
        return self._policies.prepare(plan, index, own=own, peer_module=peer_module)

    def module(self, identifier: str) -> bytes | None:
        return self._answer("module", identifier)  # type: ignore[return-value]

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        self._answer("begin", policy.plan, schema, key)
        return None

    def evaluate(self, question: Question) -> Evaluated:
        return self._answer("evaluate", question)  # type: ignore[return-value]

    def absent(self, records: Collection[str]) -> frozenset[str]:
        return self._answer("absent", frozenset(records))  # type: ignore[return-value]

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        described = self._answer("describe", frozenset(records), schema)
        assert isinstance(described, dict)
        return [described[record] for record in records]

    def expect(self, records: Sequence[str]) -> None:
        """Nothing was answered."""

    def load(self, record: str) -> bytes | None:
        return self._answer("load", record)  # type: ignore[return-value]

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        del schema
        return None

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        del records, schema, length
        return None

    def cursor(self, key: str) -> Cursor | None:
        return self._answer("cursor", key)  # type: ignore[return-value]

    def _answer(self, method: str, *arguments: object) -> object:
        if not self.reads:
            raise _Differs(f"it asks for {method}, where it asked for nothing more")
        read = self.reads.pop(0)
        if read.method != method:
            raise _Differs(f"it asks for {method}, where it asked for {read.method}")
        if read.asked != _digest(*arguments):
            raise _Differs(f"it asks for {method} with other arguments: {_shown(arguments)}")
        match read.error:
            case None:
                return unpack(msgspec.msgpack.decode(read.answer))
            case ("peer", code, words):
                raise PeerError(code, words)
            case ("limit", code, words):
                raise LimitExceeded(code, words)
            case (_, _, words):
                raise ResourceError(words, retry=False)


def replay(stream: BinaryIO) -> Replayed:
    """Give a new machine what the recorded one was given, and compare every step."""
    if stream.read(len(VERSION)) != VERSION:
        raise NoRecording("this is no recording of an exchange, or one of another version")
    frames = _Frames(stream)
    holdings = _ReplayedHoldings()
    machine: InterlaceMachine | None = None
    steps, ended, is_full = 0, False, False
    difference: Difference | None = None
    for frame in frames:
        if isinstance(frame, _Full):
            is_full = True
        elif isinstance(frame, _Begin) and machine is None:
            machine = InterlaceMachine(_config(frame), holdings)
        elif isinstance(frame, _Step) and machine is not None:
            difference, ended = _replay_step(machine, holdings, frame, steps + 1)
            if difference is not None:
                break
            steps += 1
        else:
            raise NoRecording("the frames of the recording are out of order")
    return Replayed(steps=steps, difference=difference, ended=ended, is_full=is_full, is_cut_off=frames.is_cut_off)


def _replay_step(
    machine: InterlaceMachine, holdings: _ReplayedHoldings, frame: _Step, number: int
) -> tuple[Difference | None, bool]:
    event: Event = unpack(msgspec.msgpack.decode(frame.event))  # type: ignore[assignment]
    holdings.reads = list(frame.reads)
    raised: str | None = None
    effects: tuple[Effect, ...] = ()
    try:
        effects = machine.step(event, now=Now(tai_ns=frame.tai_ns, monotonic_ns=frame.monotonic_ns))
    except _Differs as error:
        return Difference(step=number, event=_shown(event), what=str(error)), False
    except (BobbinError, AssertionError) as error:
        raised = f"{type(error).__name__}: {error}"
    if raised != frame.raised:
        what = f"it raises {raised or 'nothing'}, where it raised {frame.raised or 'nothing'}"
        return Difference(step=number, event=_shown(event), what=what), False
    if holdings.reads:
        what = f"it does not ask for {holdings.reads[0].method}, as it did"
        return Difference(step=number, event=_shown(event), what=what), False
    if bytes(_raw(effects)) != bytes(frame.effects):
        what = _compare(effects, msgspec.msgpack.decode(frame.effects)[1])
        return Difference(step=number, event=_shown(event), what=what), False
    return None, any(isinstance(effect, Notify) and isinstance(effect.notice, Ended) for effect in effects)


def _compare(effects: tuple[Effect, ...], recorded: list[object]) -> str:
    """The first effect that is another than the recorded one."""
    for one, other in zip(effects, recorded, strict=False):
        if pack(one) != other:
            return f"it does {_shown(one)}, where it did {_shown(unpack(other))}"
    return f"it does {len(effects)} things, where it did {len(recorded)}"


def _config(frame: _Begin) -> Config:
    config = unpack(msgspec.msgpack.decode(frame.config))
    if not isinstance(config, Config):
        raise NoRecording("the recording does not begin with a configuration")
    return config


class _Frames:
    """The frames of a file, up to the first that is not whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_cut_off = False

    def __iter__(self) -> Iterator[_Frame]:
        decoder = msgspec.msgpack.Decoder(_Frame)
        while head := self._stream.read(_LENGTH + _DIGEST):
            length = int.from_bytes(head[:_LENGTH], "big")
            body = self._stream.read(length) if length <= FRAME_BYTES_MAX else b""
            if len(head) < _LENGTH + _DIGEST or blake3(body).digest(_DIGEST) != head[_LENGTH:]:
                self.is_cut_off = True
                return
            try:
                yield decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise NoRecording(f"the recording holds a frame of another version: {error}") from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
