/**
 * The frames of a link, as text: the handshake, and the form of messages that published peers speak, with bytes in
 * base64 (or as numbers, which every peer may send).
 *
 * A frame is read whole or refused: a field too many or too few, an id that a double cannot hold, a value that is
 * neither bytes nor a blob. Ids above 2^53 - 1 are refused and never rounded: what JSON.parse makes of one is not a
 * safe integer.
 */

/** A frame that is not what it should be. Nothing of it was used. */
export class FrameFault extends Error {}

const KEY_BYTES_MAX = 1024;
const KEY_SEGMENTS_MAX = 32;
const utf8 = new TextEncoder();

export const PROTOCOL = "lazily-ipc";
export const FEATURES = Object.freeze(["json-base64", "bobbin-acked-writes"]);

function parse(frame, bytesMax) {
  if (typeof frame !== "string") throw new FrameFault("a frame is text here");
  if (isTooLong(frame, bytesMax)) throw new FrameFault(`a frame is longer than ${bytesMax} bytes`);
  try {
    return JSON.parse(frame);
  } catch {
    throw new FrameFault("a frame is not JSON");
  }
}

function object(value, required, optional = []) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new FrameFault("an object is missing");
  for (const name of required) if (!Object.hasOwn(value, name)) throw new FrameFault(`the field ${name} is missing`);
  for (const name of Object.keys(value)) {
    if (!required.includes(name) && !optional.includes(name)) throw new FrameFault(`an unknown field: ${name.slice(0, 40)}`);
  }
  return value;
}

function only(value) {
  const names = value !== null && typeof value === "object" && !Array.isArray(value) ? Object.keys(value) : [];
  if (names.length !== 1) throw new FrameFault("an object with one key is missing");
  return [names[0], value[names[0]]];
}

function number(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw new FrameFault("a number is negative, broken, or above 2^53 - 1");
  return value;
}

function string(value) {
  if (typeof value !== "string") throw new FrameFault("a text is missing");
  return value;
}

function list(value, read) {
  if (!Array.isArray(value)) throw new FrameFault("a list is missing");
  return value.map(read);
}

function bytes(value) {
  if (Array.isArray(value)) {
    if (!value.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255)) throw new FrameFault("not a byte");
    return Uint8Array.from(value);
  }
  let plain;
  try {
    plain = atob(string(value));
  } catch {
    throw new FrameFault("not base64");
  }
  if (value.length % 4 !== 0 || /\s/.test(value)) throw new FrameFault("not base64");
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

function base64(value) {
  let plain = "";
  for (let place = 0; place < value.length; place += 0x8000) {
    plain += String.fromCharCode(...value.subarray(place, place + 0x8000));
  }
  return btoa(plain);
}

/** Shared memory is out of a browser's reach: such a value is there, and cannot be read. */
function content(value, name) {
  const [kind, inner] = only(value);
  if (kind === name) return bytes(inner);
  if (kind === "SharedBlob") return null;
  throw new FrameFault(`a value is given as ${kind.slice(0, 40)}`);
}

function key(value) {
  if (value === undefined || value === null) return null;
  const segments = string(value).split("/");
  if (segments.length > KEY_SEGMENTS_MAX || segments.includes("") || utf8.encode(value).length > KEY_BYTES_MAX) {
    throw new FrameFault("a key is a path of up to 32 names");
  }
  return value;
}

function node(value) {
  object(value, ["node", "type_tag", "state"], ["key"]);
  const isSet = value.state !== "Opaque";
  return {
    id: number(value.node),
    tag: string(value.type_tag),
    state: isSet ? "resolved" : "unset",
    bytes: isSet ? content(value.state, "Payload") : null,
    key: key(value.key),
  };
}

function edge(value) {
  object(value, ["dependent", "dependency"]);
  return { dependent: number(value.dependent), dependency: number(value.dependency) };
}

function valued(kind, value) {
  object(value, ["node", "payload"]);
  return { kind, id: number(value.node), bytes: content(value.payload, "Inline") };
}

const operations = {
  CellSet: (value) => valued("cell-set", value),
  SlotValue: (value) => valued("slot-value", value),
  Invalidate: (value) => ({ kind: "invalidate", id: number(object(value, ["node"]).node) }),
  NodeAdd: (value) => ({ kind: "node-add", ...node(value) }),
  NodeRemove: (value) => ({ kind: "node-remove", id: number(object(value, ["node"]).node) }),
  EdgeAdd: (value) => ({ kind: "edge-add", ...edge(value) }),
  EdgeRemove: (value) => ({ kind: "edge-remove", ...edge(value) }),
};

function operation(value) {
  const [name, inner] = only(value);
  if (!Object.hasOwn(operations, name)) throw new FrameFault(`an unknown operation: ${name.slice(0, 40)}`);
  return operations[name](inner);
}

const messages = {
  Snapshot(value) {
    object(value, ["epoch", "nodes", "edges", "roots"]);
    return {
      kind: "snapshot",
      epoch: number(value.epoch),
      nodes: list(value.nodes, node),
      edges: list(value.edges, edge),
      roots: list(value.roots, number),
    };
  },
  Delta(value) {
    object(value, ["base_epoch", "epoch", "ops"]);
    return {
      kind: "delta",
      base: number(value.base_epoch),
      epoch: number(value.epoch),
      operations: list(value.ops, operation),
    };
  },
  OutboxAck: (value) => ({ kind: "ack", through: number(object(value, ["through_epoch"]).through_epoch) }),
  ResyncRequest: (value) => ({ kind: "request", from: number(object(value, ["from_epoch"]).from_epoch) }),
  CrdtSync(value) {
    object(value, ["ops"], ["frontier"]);
    return { kind: "crdt" };
  },
};

/** The message of a frame. Throws FrameFault. */
export function decodeMessage(frame, bytesMax) {
  const [name, inner] = only(parse(frame, bytesMax));
  if (!Object.hasOwn(messages, name)) throw new FrameFault(`an unknown message: ${name.slice(0, 40)}`);
  return messages[name](inner);
}

/** A request for a snapshot. */
export function encodeRequest(from) {
  return JSON.stringify({ ResyncRequest: { from_epoch: from } });
}

/** Writes of cells: a list of {id, bytes}. */
export function encodeWrites(base, epoch, writes) {
  const ops = writes.map(({ id, bytes: value }) => ({ CellSet: { node: id, payload: { Inline: base64(value) } } }));
  return JSON.stringify({ Delta: { base_epoch: base, epoch, ops } });
}

/** A wish that an effect be run. */
export function encodeTrigger(id) {
  return JSON.stringify({ kind: "trigger_effect", node: id });
}

/** Whether a frame is longer than it may be. */
export function isTooLong(frame, bytesMax) {
  return frame.length > bytesMax || (frame.length * 3 > bytesMax && utf8.encode(frame).length > bytesMax);
}

/** The first frame of either side. `outbox`: the name of what keeps our writes; `settled`: how many it keeps no longer. */
export function encodeHandshake({ peer, session, frameBytesMax }, outbox, settled) {
  return JSON.stringify({
    protocol_id: PROTOCOL,
    protocol_major_version: 1,
    codec: "json",
    max_frame_size: frameBytesMax,
    fragmentation_supported: false,
    ordered_reliable: true,
    peer_id: peer,
    session_id: session,
    features: [...FEATURES, `bobbin-outbox-${outbox}-${settled}`],
  });
}

/**
 * What the other side said, where it fits this side: the smaller bound, whether it acknowledges writes, how it calls
 * itself as long as its ids mean the same nodes (`run`), how many writes of this link it has already (`taken`; null if it
 * does not say), and by which memory (`memory`). Throws FrameFault naming the field that does not fit.
 */
export function agree(frame, { session, frameBytesMax }) {
  const said = object(parse(frame, 16 * 1024), [
    "protocol_id",
    "protocol_major_version",
    "codec",
    "max_frame_size",
    "fragmentation_supported",
    "ordered_reliable",
    "peer_id",
    "session_id",
    "features",
  ]);
  const fits = {
    protocol_id: said.protocol_id === PROTOCOL,
    protocol_major_version: said.protocol_major_version === 1,
    codec: said.codec === "json",
    max_frame_size: number(said.max_frame_size) > 0,
    fragmentation_supported: typeof said.fragmentation_supported === "boolean",
    ordered_reliable: said.ordered_reliable === true,
    session_id: said.session_id === session && session !== "",
    features: list(said.features, string).includes("json-base64"),
  };
  number(said.peer_id);
  for (const [field, isRight] of Object.entries(fits)) if (!isRight) throw new FrameFault(`the handshake fails at ${field}`);
  const taken = said.features.map((feature) => /^bobbin-taken-([0-9]{1,15})-([0-9a-f.]{1,64})$/.exec(feature)).find(Boolean);
  return {
    taken: taken === undefined ? null : Number(taken[1]),
    memory: taken === undefined ? null : taken[2],
    frameBytesMax: Math.min(frameBytesMax, said.max_frame_size),
    acknowledges: said.features.includes("bobbin-acked-writes"),
    run: said.features.find((feature) => feature.startsWith("bobbin-run-")) ?? null,
  };
}
