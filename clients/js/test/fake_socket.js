/** A WebSocket whose other end is the test. */
export class FakeSocket {
  static made = [];

  constructor(url, protocols) {
    Object.assign(this, { url, protocols, sent: [], isClosed: false });
    FakeSocket.made.push(this);
  }

  send(frame) {
    this.sent.push(JSON.parse(frame));
  }

  close() {
    this.isClosed = true;
  }

  /** The connection comes up. */
  open() {
    this.onopen();
  }

  /** The server says something. */
  say(frame) {
    this.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }

  /** The connection is lost. */
  lose(reason = "") {
    this.onclose({ reason });
  }

  static get newest() {
    return FakeSocket.made.at(-1);
  }
}

const FEATURES = ["json-base64", "bobbin-acked-writes"];

/** Of a server that has nothing of our outbox yet. */
export const HANDSHAKE = Object.freeze({
  protocol_id: "lazily-ipc",
  protocol_major_version: 1,
  codec: "json",
  max_frame_size: 1 << 20,
  fragmentation_supported: false,
  ordered_reliable: true,
  peer_id: 0,
  session_id: "graph",
  features: [...FEATURES, "bobbin-taken-0-a.1"],
});

/** Of a server that has so many frames of this link already, by the same memory. */
export const knowing = (taken, ...features) => remembering("a.1", taken, ...features);

/** The same, by another memory. */
export const remembering = (memory, taken, ...features) => ({
  ...HANDSHAKE,
  features: [...FEATURES, `bobbin-taken-${taken}-${memory}`, ...features],
});

export const node = (id, text, key) => ({
  node: id,
  type_tag: "string",
  state: { Payload: Buffer.from(text).toString("base64") },
  ...(key === undefined ? {} : { key }),
});

export const snapshot = (epoch, ...nodes) => ({
  Snapshot: { epoch, nodes, edges: [], roots: nodes.map((one) => one.node) },
});

export const cellSet = (id, text) => ({ CellSet: { node: id, payload: { Inline: Buffer.from(text).toString("base64") } } });

export const delta = (base, ...ops) => ({ Delta: { base_epoch: base, epoch: base + 1, ops } });
