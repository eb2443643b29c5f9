"""The small file beside the log: the incarnation under which a node last spoke of itself."""

from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.errors import IntegrityError, UsageError
from bobbin.store.wal.faults import translated
from bobbin.store.wal.files import Files
from bobbin.store.wal.record import HEAD, PAYLOAD_BYTES_MAX, frame, payload_at
from bobbin.store.wal.replacing import written_whole
from bobbin.wire.cluster.durable import VERSION, Standing, decode_standing, encode_whole

NAME: Final = "standing"


def read_incarnation(files: Files, *, node: NodeId, cluster: bytes) -> int:
    """The incarnation that was saved last; 0 if none was. ``IntegrityError`` for damage: going back would be worse."""
    with translated("reading the incarnation"):
        if NAME not in files.names():
            return 0
        reader = files.open(NAME)
        try:
            content = reader.read(0, HEAD.size + PAYLOAD_BYTES_MAX)
        finally:
            reader.close()
    payload = payload_at(content, 0)
    if payload is None or HEAD.size + len(payload) != len(content):
        raise IntegrityError(f"{NAME} is damaged at offset 0")
    standing = decode_standing(payload)
    if (standing.node, standing.cluster) != (node, cluster):
        raise UsageError(
            f"{NAME} is of node {standing.node} of cluster {standing.cluster.hex() or '(none)'}, not of {node}"
        )
    return standing.incarnation


def save_incarnation(files: Files, incarnation: int, *, node: NodeId, cluster: bytes) -> None:
    """Make it durable."""
    standing = Standing(version=VERSION, node=node, cluster=cluster, incarnation=incarnation)
    with translated("saving the incarnation"):
        written_whole(files, NAME, [frame(encode_whole(standing))]).close()
