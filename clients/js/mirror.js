/**
 * A mirror of a graph that a Bobbin process serves: it connects over WebSocket, keeps in step by snapshot and deltas,
 * asks for a snapshot when something does not fit, comes back by itself after a lost connection, and writes back where
 * it may. No dependencies; runs in browsers and in Node (given a WebSocket class there).
 *
 *     const mirror = new GraphMirror("ws://127.0.0.1:7400/graph", { token: "…", peer: 7 });
 *     mirror.addEventListener("update", () => console.log(mirror.value("records/total")));
 *     mirror.write("note", "hello");
 *
 * Events: `update` ({epoch, ids, removed, replaced}), `status` ({status}), `refused` ({reason}).
 *
 * A write is kept until the server says that it has it, over reconnections too, if the server can say so.
 */

import { FrameFault, agree, decodeMessage, encodeHandshake, encodeRequest, encodeTrigger, encodeWrites } from "./frames.js";
import { Replica } from "./replica.js";
import { decodeValue, encodeValue } from "./values.js";

export { FrameFault } from "./frames.js";
export { ValueFault } from "./values.js";

/** The id of whoever shows no token. */
export const ANYONE = 2;

const DEFAULTS = {
  token: null,
  peer: ANYONE,
  session: "graph",
  frameBytesMax: 16 * 1024 * 1024,
  writesMax: 1024,
  answerMs: 5_000,
  retryMsMin: 250,
  retryMsMax: 15_000,
  WebSocket: globalThis.WebSocket,
};

class GraphEvent extends Event {
  constructor(type, detail) {
    super(type);
    Object.assign(this, detail);
  }
}

export class GraphMirror extends EventTarget {
  #url;
  #options;
  #replica = new Replica();
  #status = "offline";
  #socket = null;
  #agreed = null;
  #last = null;
  #epoch = null;
  #failures = 0;
  #timer = null;
  #ackTimer = null;
  #writes = [];
  #written = 0;
  #run = null;

  /** Begins to connect at once. See DEFAULTS for the options; `peer` is the id that belongs to the token. */
  constructor(url, options = {}) {
    super();
    this.#url = url;
    this.#options = { ...DEFAULTS, ...options };
    if (typeof this.#options.WebSocket !== "function") throw new TypeError("there is no WebSocket here; give one as an option");
    this.#connect();
  }

  /** `offline`, `greeting`, `awaiting`, `live`, `resyncing` or `closed`. Values stay readable in all of them. */
  get status() {
    return this.#status;
  }

  /** The last epoch that was applied; null before the first snapshot. */
  get epoch() {
    return this.#epoch;
  }

  /** By id: {id, tag, state, bytes, key}. */
  get nodes() {
    return this.#replica.nodes;
  }

  /** A list of {dependent, dependency}. */
  get edges() {
    return this.#replica.edges;
  }

  /** Ids of cells, and of what was computed from nothing. */
  get roots() {
    return this.#replica.roots;
  }

  /** How many writes are not known to have arrived. */
  get unacknowledged() {
    return this.#writes.length;
  }

  /** The node with a key or an id; undefined if there is none. */
  node(name) {
    return typeof name === "number" ? this.nodes.get(name) : this.#replica.find(name);
  }

  /** The value of a node; undefined if it has none. Throws ValueFault for bytes that are not what the tag says. */
  value(name) {
    const node = this.node(name);
    return node === undefined || node.bytes === null ? undefined : decodeValue(node.tag, node.bytes);
  }

  /** Set a cell. Several at once: write([[name, value], …]). Throws RangeError for what cannot be written now. */
  write(name, value) {
    const pairs = Array.isArray(name) ? name : [[name, value]];
    if (pairs.length === 0) throw new RangeError("nothing to write");
    const writes = pairs.map(([one, wanted]) => {
      const node = this.node(one);
      if (node === undefined) throw new RangeError(`there is no node ${one}`);
      return { id: node.id, tag: node.tag, key: node.key, bytes: encodeValue(node.tag, wanted) };
    });
    if (this.#writes.length >= this.#options.writesMax) throw new RangeError("too many writes wait already");
    this.#writes.push({ number: this.#written++, writes, run: this.#run });
    if (this.#last !== null) this.#sendWrite(this.#writes.at(-1));
  }

  /** Ask that an effect be run. Throws RangeError without a link or a node. */
  trigger(name) {
    const node = this.node(name);
    if (node === undefined) throw new RangeError(`there is no node ${name}`);
    if (this.#last === null) throw new RangeError("there is no link");
    this.#send(encodeTrigger(node.id));
  }

  /** End it for good. Values stay readable. */
  close() {
    this.#become("closed");
    this.#clearTimers();
    this.#socket?.close();
    this.#socket = null;
    this.#last = null;
  }

  // ---- the connection ------------------------------------------------------------------------------------------

  #connect() {
    const { token, WebSocket } = this.#options;
    const protocols = token === null ? ["lazily-ipc"] : ["lazily-ipc", `bearer.${token}`];
    const socket = new WebSocket(this.#url, protocols);
    this.#socket = socket;
    this.#agreed = null;
    socket.onopen = () => {
      if (socket !== this.#socket) return;
      this.#send(encodeHandshake(this.#options));
      this.#wait("greeting", () => this.#drop("there is no answer to the handshake"));
    };
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(data);
    };
    socket.onerror = () => {};
    socket.onclose = ({ reason }) => {
      if (socket === this.#socket) this.#lose(reason);
    };
  }

  #lose(reason) {
    this.#clearTimers();
    this.#socket = null;
    this.#last = null;
    if (this.#status === "closed") return;
    if (reason) this.#tell("refused", { reason });
    this.#become("offline");
    const { retryMsMin, retryMsMax } = this.#options;
    // A random part keeps many mirrors of one server from coming back all at once.
    const delay = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(this.#failures++, 16)) * (0.5 + Math.random() / 2);
    this.#timer = setTimeout(() => this.#connect(), delay);
  }

  /** Let go of a connection that is of no use. */
  #drop(reason) {
    const socket = this.#socket;
    this.#lose(reason);
    socket?.close();
  }

  #send(frame) {
    this.#socket?.send(frame);
  }

  #wait(status, late) {
    this.#become(status);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(late, this.#options.answerMs);
  }

  #clearTimers() {
    clearTimeout(this.#timer);
    clearTimeout(this.#ackTimer);
    this.#timer = this.#ackTimer = null;
  }

  #become(status) {
    if (status === this.#status) return;
    this.#status = status;
    this.#tell("status", { status });
  }

  #tell(type, detail) {
    this.dispatchEvent(new GraphEvent(type, detail));
  }

  // ---- what the server says --------------------------------------------------------------------------------------

  #receive(frame) {
    if (this.#status === "greeting") {
      try {
        this.#agreed = agree(frame, this.#options);
        this.#run = this.#agreed.run;
      } catch (fault) {
        if (!(fault instanceof FrameFault)) throw fault;
        this.#drop(fault.message);
        return;
      }
      this.#wait("awaiting", () => this.#request());
      return;
    }
    let message;
    try {
      message = decodeMessage(frame, this.#agreed.frameBytesMax);
    } catch (fault) {
      if (!(fault instanceof FrameFault)) throw fault;
      // It may have been anything, also the snapshot that is waited for.
      this.#tell("refused", { reason: fault.message });
      this.#request();
      return;
    }
    if (message.kind === "snapshot") this.#takeSnapshot(message);
    else if (message.kind === "delta") this.#takeDelta(message);
    else if (message.kind === "ack") this.#takeAck(message.through);
  }

  #takeSnapshot(snapshot) {
    const wrong = this.#replica.replace(snapshot);
    if (wrong !== null) {
      this.#drop(wrong);
      return;
    }
    const isFirst = this.#last === null;
    this.#failures = 0;
    this.#epoch = this.#last = snapshot.epoch;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#become("live");
    if (isFirst) this.#sendAgain();
    this.#tell("update", { epoch: this.#epoch, ids: [...this.nodes.keys()], removed: [], replaced: true });
  }

  #takeDelta({ base, epoch, operations }) {
    if (this.#status === "resyncing") return;
    if (this.#last === null || base !== this.#last || epoch !== base + 1 || this.#replica.misfit(operations) !== null) {
      this.#request();
      return;
    }
    this.#replica.apply(operations);
    this.#epoch = this.#last = epoch;
    const ids = new Set(operations.map(({ id }) => id).filter((id) => id !== undefined));
    const removed = [...ids].filter((id) => !this.nodes.has(id));
    this.#tell("update", { epoch, ids: [...ids].filter((id) => this.nodes.has(id)), removed, replaced: false });
  }

  /** Ask for a snapshot: once for each gap, and again when none comes. */
  #request() {
    this.#send(encodeRequest(this.#last ?? 0));
    this.#wait("resyncing", () => this.#request());
  }

  // ---- writing back ----------------------------------------------------------------------------------------------

  /**
   * What is kept, on a link that has seen none of it. A server that was started anew may have given the ids to other
   * nodes: unless it is the same one still, a write goes to the node with the same key and tag, or nowhere.
   */
  #sendAgain() {
    const { run } = this.#agreed;
    for (const write of this.#writes) {
      if (write.run === null || write.run !== run) {
        const found = write.writes.map(({ key }) => (key === null ? undefined : this.node(key)));
        if (found.every((node, place) => node?.tag === write.writes[place].tag)) {
          write.writes = write.writes.map((one, place) => ({ ...one, id: found[place].id }));
        } else {
          write.writes = [];
          this.#tell("refused", { reason: "a write was for a node that is no longer there" });
        }
      }
      write.run = run;
    }
    this.#writes = this.#writes.filter((write) => write.writes.length > 0);
    this.#writes.forEach((write, place) => {
      write.number = place;
    });
    this.#written = this.#writes.length;
    for (const write of [...this.#writes]) this.#sendWrite(write);
  }

  #sendWrite(write) {
    if (!this.#agreed.acknowledges) {
      this.#send(encodeWrites(this.#last, this.#last + 1, write.writes));
      this.#writes = this.#writes.filter((other) => other !== write);
      return;
    }
    this.#send(encodeWrites(write.number, write.number + 1, write.writes));
    this.#ackTimer ??= setTimeout(() => this.#remind(), this.#options.answerMs);
  }

  /** The server takes a write only if it is the next one, so to say it again does no harm. */
  #remind() {
    this.#ackTimer = null;
    if (this.#last !== null) for (const write of [...this.#writes]) this.#sendWrite(write);
  }

  #takeAck(through) {
    this.#writes = this.#writes.filter((write) => write.number >= through);
    if (this.#writes.length === 0) {
      clearTimeout(this.#ackTimer);
      this.#ackTimer = null;
    }
  }
}
