"""The frames of one link, both ways: in one form, within what was agreed on.

There is a conversation only where there is an agreement: a link whose handshake failed has nothing that could read or
write a message. The form is what this side was told to use, or else that of the first frame that comes; a side that
must speak first and was told nothing speaks the seed's. After that, another form is a fault.
"""

from typing import Final, assert_never

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Agreed, Codec
from bobbin.reactive.messages import SAFE_INTEGER_MAX, U64_MAX, BlobRef, CrdtSync, Delta, Message, Snapshot
from bobbin.wire.lazily import canonical_json, fragments, message_pack, seed_json
from bobbin.wire.lazily.conversions import to_canonical, to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault, check_size
from bobbin.wire.lazily.forms import Form, detect


class Conversation:
    """Writes the messages of this side and reads those of the other."""

    def __init__(
        self,
        agreed: Agreed,
        *,
        form: Form | None = None,
        javascript: bool = False,
        message_bytes_max: int = fragments.MESSAGE_BYTES_MAX,
    ) -> None:
        """``javascript``: whether the peer holds numbers as JavaScript does, so that ids must not exceed 2^53 - 1.

        ``message_bytes_max``: of a message in pieces, where those were agreed on.
        """
        packed = agreed.codec is Codec.MESSAGE_PACK
        if form is not None and (form is Form.MESSAGE_PACK) != packed:
            raise UsageError(f"the form {form.value} is not of the codec {agreed.codec.value}")
        self.form = Form.MESSAGE_PACK if packed else form
        """None until anything was said."""
        self._agreed: Final = agreed
        self._id_max: Final = SAFE_INTEGER_MAX if javascript else U64_MAX
        self._bytes_max: Final = message_bytes_max if agreed.fragmentation else agreed.frame_bytes_max
        self._assembler: Final = fragments.Assembler(message_bytes_max=message_bytes_max)
        self._cut = 0
        """How many messages were sent in pieces."""

    def write(self, message: Message) -> tuple[bytes, ...]:
        """The frames, in order, that tell the peer a message. Raises ``UsageError``, and then nothing is to be sent."""
        if self.form is None:
            self.form = Form.SEED_JSON
        convert = to_seed if self.form is Form.SEED_JSON else to_canonical
        texts = [self._encode(one, self.form) for one in convert(message)]
        return tuple([frame for raw in texts for frame in self._split(raw)])

    def read(self, raw: bytes) -> Message | None:
        """The message that a frame completes, or None where it is a piece of one. Raises ``FrameFault``."""
        check_size(raw, self._agreed.frame_bytes_max)
        if fragments.is_fragment(raw) and not self._agreed.fragmentation:
            raise FrameFault(Fault.FRAGMENT, "pieces of messages were not agreed on")
        whole = self._assembler.take(raw)
        if whole is None:
            return None
        form = self.form or detect(whole, frame_bytes_max=self._bytes_max)
        if form is Form.MESSAGE_PACK and self._agreed.codec is not Codec.MESSAGE_PACK:
            raise FrameFault(Fault.WRONG_FORM, "MessagePack on a link that speaks JSON")
        message = self._decode(whole, form)
        self.form = form
        if not self._agreed.shared_blob and has_blob(message):
            raise FrameFault(Fault.BLOB, "values elsewhere than in frames were not agreed on")
        return message

    def _encode(self, message: Message, form: Form) -> bytes:
        limit, id_max = self._bytes_max, self._id_max
        match form:
            case Form.SEED_JSON:
                return seed_json.encode(message, frame_bytes_max=limit, id_max=id_max)
            case Form.CANONICAL_JSON:
                base64 = self._agreed.base64
                return canonical_json.encode(message, frame_bytes_max=limit, id_max=id_max, base64=base64)
            case Form.MESSAGE_PACK:
                return message_pack.encode(message, frame_bytes_max=limit, id_max=id_max)
            case _:
                assert_never(form)

    def _decode(self, raw: bytes, form: Form) -> Message:
        limit = self._bytes_max
        try:
            match form:
                case Form.SEED_JSON:
                    return seed_json.decode(raw, frame_bytes_max=limit)
                case Form.CANONICAL_JSON:
                    return canonical_json.decode(raw, frame_bytes_max=limit, base64=self._agreed.base64)
                case Form.MESSAGE_PACK:
                    return message_pack.decode(raw, frame_bytes_max=limit)
                case _:
                    assert_never(form)
        except FrameFault as fault:
            if fault.fault is Fault.MALFORMED and _is_other(raw, form, limit):
                raise FrameFault(Fault.WRONG_FORM, f"this link speaks {form.value}") from fault
            raise

    def _split(self, raw: bytes) -> tuple[bytes, ...]:
        """The frames of a text. One that is too long for a frame is here only where pieces were agreed on."""
        number = self._cut % (fragments.LENGTH_MAX + 1)
        limit = self._agreed.frame_bytes_max
        frames = fragments.split(raw, frame_bytes_max=limit, number=number, message_bytes_max=self._bytes_max)
        self._cut += len(frames) > 1
        return frames


def has_blob(message: Message) -> bool:
    """Whether a value of a message is elsewhere."""
    match message:
        case Snapshot(nodes=nodes):
            return any(isinstance(node.value, BlobRef) for node in nodes)
        case Delta(operations=operations):
            return any(isinstance(getattr(one, "value", None), BlobRef) for one in operations)
        case CrdtSync(operations=states):
            return any(isinstance(one.state, BlobRef) for one in states)
        case _:
            return False


def _is_other(raw: bytes, form: Form, frame_bytes_max: int) -> bool:
    """Whether a frame that cannot be read is in another form."""
    try:
        return detect(raw, frame_bytes_max=frame_bytes_max) is not form
    except FrameFault:
        return False
