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
 * A write is kept until the server says that it has it, over reconnections too, if the server can say so. It is done at
 * most once: what was sent to a server that has been started anew since, or has forgotten what it had, is given up, since
 * it may have been done. What is given up is told as `refused`, with the `names` of its nodes.
 */

import {
  FrameFault,
  agree,
  decodeMessage,
  encodeHandshake,
  encodeRequest,
  encodeTrigger,
  encodeWrites,
  isTooLong,
} from "./frames.js";
import { Replica } from "./replica.js";
import { decodeValue, encodeValue } from "./values.js";

export { FrameFault } from "./frames.js";
export { ValueFault } from "./values.js";

/** The id of whoever shows no token. */
export const ANYONE = 2;

/** Why there is no connection, as far as anybody can know here. */
export const NOT_MADE = "no connection: nothing answers there, or the token or this page is not known there";

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

/** The name of an outbox: nobody else has it. */
function drawName() {
  const drawn = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return [...drawn].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

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
  #outbox = drawName();
  #settled = 0;
  #run = null;
  #bytesMax = null;

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
    const longest = encodeWrites(Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER, writes);
    if (isTooLong(longest, this.#bytesMax)) throw new RangeError(`a write has at most ${this.#bytesMax} bytes in all`);
    this.#writes.push({ number: this.#written++, writes, run: this.#run, sentTo: null });
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
    let isOpen = false;
    socket.onopen = () => {
      if (socket !== this.#socket) return;
      isOpen = true;
      // Numbers are given once; on a link they are counted from what is settled when it begins.
      this.#settled = this.#writes[0]?.number ?? this.#written;
      this.#send(encodeHandshake(this.#options, this.#outbox, this.#settled));
      this.#wait("greeting", () => this.#drop("there is no answer to the handshake"));
    };
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(data);
    };
    socket.onerror = () => {};
    socket.onclose = ({ reason }) => {
      // A browser does not say why a connection was not made, be it a wrong token.
      if (socket === this.#socket) this.#lose(reason || (isOpen ? "" : NOT_MADE));
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
        this.#bytesMax = this.#agreed.frameBytesMax;
      } catch (fault) {
        if (!(fault instanceof FrameFault)) throw fault;
        this.#drop(fault.message);
        return;
      }
      if (this.#agreed.taken !== null) this.#takeAck(this.#agreed.taken);
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
    // Until now what is shown, and written to, was of the server before.
    this.#run = this.#agreed.run;
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
   * What is kept, on another link. A write goes to the node with the same key and tag, or nowhere: ids are given again.
   * Without a key it goes to its id and tag, if the server is the same one still.
   */
  #sendAgain() {
    const { run, memory } = this.#agreed;
    for (const write of this.#writes) {
      const isSame = write.run !== null && write.run === run;
      const found = write.writes.map(({ key, id }) => (key !== null ? this.node(key) : isSame ? this.node(id) : undefined));
      const isThere = found.every((node, place) => {
        const { key, tag } = write.writes[place];
        return node !== undefined && node.tag === tag && node.key === key;
      });
      // Only the memory that it was sent to knows whether it was done.
      const maySend = write.sentTo === null || write.sentTo === memory;
      if (!maySend) this.#giveUp(write, "it may have been done: the server does not know");
      else if (!isThere) this.#giveUp(write, "it was for a node that is no longer there");
      else write.writes = write.writes.map((one, place) => ({ ...one, id: found[place].id }));
      write.run = run;
    }
    for (const write of [...this.#writes]) this.#sendWrite(write);
  }

  /** Its number stays, with nothing to write, so that there is no gap. */
  #giveUp(write, why) {
    const names = write.writes.map(({ key, id }) => key ?? id);
    write.writes = [];
    if (names.length > 0) this.#tell("refused", { reason: `a write is given up: ${why}`, names });
  }

  #sendWrite(write) {
    const { acknowledges, frameBytesMax } = this.#agreed;
    const base = acknowledges ? write.number - this.#settled : this.#last;
    let frame = encodeWrites(base, base + 1, write.writes);
    if (isTooLong(frame, frameBytesMax)) {
      this.#giveUp(write, "it is longer than this server takes");
      frame = encodeWrites(base, base + 1, []);
    }
    if (!acknowledges) {
      if (write.writes.length > 0) this.#send(frame);
      this.#writes = this.#writes.filter((other) => other !== write);
      return;
    }
    write.sentTo ??= this.#agreed.memory ?? "";
    this.#send(frame);
    this.#ackTimer ??= setTimeout(() => this.#remind(), this.#options.answerMs);
  }

  /** The server takes a write only if it is the next one, so to say it again does no harm. */
  #remind() {
    this.#ackTimer = null;
    if (this.#last !== null) for (const write of [...this.#writes]) this.#sendWrite(write);
  }

  #takeAck(through) {
    this.#writes = this.#writes.filter((write) => write.number - this.#settled >= through);
    if (this.#writes.length === 0) {
      clearTimeout(this.#ackTimer);
      this.#ackTimer = null;
    }
  }
}
