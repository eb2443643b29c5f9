import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { GraphMirror, NOT_MADE } from "../mirror.js";
import { FakeSocket, HANDSHAKE, cellSet, delta, knowing, node, remembering, snapshot } from "./fake_socket.js";

mock.timers.enable({ apis: ["setTimeout"] });

function connected(options = {}, features = HANDSHAKE.features) {
  const mirror = new GraphMirror("ws://here/graph", { WebSocket: FakeSocket, ...options });
  const socket = FakeSocket.newest;
  socket.open();
  socket.say({ ...HANDSHAKE, features });
  return { mirror, socket };
}

function live(options, features) {
  const made = connected(options, features);
  made.socket.say(snapshot(5, node(1, "a", "x/a"), node(2, "b")));
  return made;
}

function again(socket) {
  socket.lose();
  mock.timers.tick(15_000);
  FakeSocket.newest.open();
  return FakeSocket.newest;
}

const requests = (socket) => socket.sent.filter((frame) => "ResyncRequest" in frame);
const writes = (socket) => socket.sent.filter((frame) => "Delta" in frame).map((frame) => frame.Delta);

test("the handshake goes first, with the id that belongs to the token", () => {
  const { mirror, socket } = connected({ token: "secret-token", peer: 9 });
  assert.deepEqual(socket.protocols, ["lazily-ipc", "bearer.secret-token"]);
  assert.equal(socket.sent[0].peer_id, 9);
  assert.equal(socket.sent[0].protocol_id, "lazily-ipc");
  assert.equal(mirror.status, "awaiting");
  mirror.close();
});

test("a connection that is not made is told, and tried again", () => {
  const mirror = new GraphMirror("ws://here/graph", { WebSocket: FakeSocket });
  const reasons = [];
  mirror.addEventListener("refused", ({ reason }) => reasons.push(reason));
  const first = FakeSocket.newest;
  first.lose();
  assert.deepEqual(reasons, [NOT_MADE]);
  mock.timers.tick(15_000);
  assert.notEqual(FakeSocket.newest, first);
  FakeSocket.newest.open();
  FakeSocket.newest.lose();
  assert.equal(reasons.length, 1, "what was there and is lost is a status");
  mirror.close();
});

for (const [field, value] of [
  ["protocol_id", "other"],
  ["protocol_major_version", 2],
  ["codec", "msgpack"],
  ["max_frame_size", 0],
  ["ordered_reliable", false],
  ["session_id", "another"],
  ["features", []],
]) {
  test(`a handshake that differs in ${field} is the end, and nothing is applied after it`, () => {
    const mirror = new GraphMirror("ws://here/graph", { WebSocket: FakeSocket });
    const socket = FakeSocket.newest;
    const reasons = [];
    mirror.addEventListener("refused", ({ reason }) => reasons.push(reason));
    socket.open();
    socket.say({ ...HANDSHAKE, [field]: value });
    socket.say(snapshot(1, node(1, "a")));
    assert.ok(socket.isClosed);
    assert.equal(mirror.nodes.size, 0);
    assert.match(reasons[0], new RegExp(field));
    mirror.close();
  });
}

test("a snapshot and deltas make the same graph as at the server", () => {
  const { mirror, socket } = live();
  const updates = [];
  mirror.addEventListener("update", ({ epoch, ids, removed }) => updates.push({ epoch, ids, removed }));
  socket.say(delta(5, cellSet(1, "c"), { NodeAdd: { ...node(3, "d"), key: null } }, { EdgeAdd: { dependent: 3, dependency: 1 } }));
  socket.say(delta(6, { NodeRemove: { node: 2 } }, { Invalidate: { node: 3 } }));
  assert.equal(mirror.value("x/a"), "c");
  assert.equal(mirror.value(2), undefined);
  assert.equal(mirror.node(3).state, "dirty");
  assert.equal(mirror.value(3), "d", "a stale mark keeps the value");
  assert.deepEqual(mirror.edges, [{ dependent: 3, dependency: 1 }]);
  assert.deepEqual(mirror.roots, [1]);
  assert.deepEqual(updates, [
    { epoch: 6, ids: [1, 3], removed: [] },
    { epoch: 7, ids: [3], removed: [2] },
  ]);
  mirror.close();
});

test("a gap is asked about once, and nothing is applied until the snapshot", () => {
  const { mirror, socket } = live();
  socket.say(delta(7, cellSet(1, "wrong")));
  socket.say(delta(8, cellSet(1, "wrong")));
  assert.equal(mirror.status, "resyncing");
  assert.deepEqual(requests(socket), [{ ResyncRequest: { from_epoch: 5 } }]);
  assert.equal(mirror.value(1), "a");
  socket.say(snapshot(9, node(1, "z", "x/a")));
  assert.equal(mirror.status, "live");
  assert.equal(mirror.value("x/a"), "z");
  assert.equal(mirror.node(2), undefined, "a snapshot is all there is");
  mirror.close();
});

for (const [what, frame] of [
  ["an unknown operation", { Delta: { base_epoch: 5, epoch: 6, ops: [cellSet(1, "q"), { Nonsense: {} }] } }],
  ["an operation for a node that is not there", delta(5, cellSet(1, "q"), cellSet(77, "r"))],
  ["an epoch that skips", { Delta: { base_epoch: 5, epoch: 8, ops: [cellSet(1, "q")] } }],
  ["an unknown field", { Delta: { base_epoch: 5, epoch: 6, ops: [], more: 1 } }],
  ["an id that no double holds", '{"Delta":{"base_epoch":5,"epoch":6,"ops":[{"Invalidate":{"node":9007199254740993}}]}}'],
  ["text that is not JSON", "{"],
  ["bytes that are none", delta(5, { CellSet: { node: 1, payload: { Inline: [256] } } })],
]) {
  test(`${what} changes nothing and asks for a snapshot`, () => {
    const { mirror, socket } = live();
    socket.say(frame);
    assert.equal(mirror.value(1), "a");
    assert.equal(mirror.epoch, 5);
    assert.equal(requests(socket).length, 1);
    mirror.close();
  });
}

test("a frame beyond the bound is not even parsed", () => {
  const { mirror, socket } = live({ frameBytesMax: 512 });
  assert.equal(mirror.status, "live");
  const parse = JSON.parse;
  const parsed = [];
  JSON.parse = (text) => {
    parsed.push(text.length);
    return parse(text);
  };
  try {
    socket.onmessage({ data: " ".repeat(513) });
    socket.onmessage({ data: "é".repeat(300) });
  } finally {
    JSON.parse = parse;
  }
  assert.ok(parsed.every((length) => length < 100), "only what the fake was sent");
  assert.equal(mirror.status, "resyncing");
  mirror.close();
});

test("a lost connection comes back, and what was known stays readable meanwhile", () => {
  const { mirror, socket } = live();
  socket.lose();
  assert.equal(mirror.status, "offline");
  assert.equal(mirror.value("x/a"), "a");
  mock.timers.tick(15_000);
  assert.notEqual(FakeSocket.newest, socket);
  FakeSocket.newest.open();
  FakeSocket.newest.say(HANDSHAKE);
  FakeSocket.newest.say(snapshot(1, node(8, "new", "x/a")));
  assert.equal(mirror.value("x/a"), "new");
  assert.equal(mirror.epoch, 1);
  mirror.close();
});

test("what the first connection still says after the second has begun is not heard", () => {
  const { mirror, socket } = live();
  socket.lose();
  mock.timers.tick(15_000);
  socket.say(snapshot(99, node(1, "late")));
  assert.equal(mirror.value(1), "a");
  mirror.close();
});

test("writes are kept until they are acknowledged, and follow their key to another id", () => {
  const { mirror, socket } = live();
  mirror.write("x/a", "one");
  mirror.write([["x/a", "two"]]);
  assert.deepEqual(
    writes(socket).map(({ base_epoch, epoch }) => [base_epoch, epoch]),
    [
      [0, 1],
      [1, 2],
    ],
  );
  socket.say({ OutboxAck: { through_epoch: 1 } });
  assert.equal(mirror.unacknowledged, 1);
  socket.lose();
  mock.timers.tick(15_000);
  const second = FakeSocket.newest;
  second.open();
  second.say(knowing(0));
  second.say(snapshot(1, node(1, "another", "y"), node(4, "a", "x/a")));
  assert.deepEqual(writes(second), [{ base_epoch: 0, epoch: 1, ops: [cellSet(4, "two")] }]);
  second.say({ OutboxAck: { through_epoch: 1 } });
  assert.equal(mirror.unacknowledged, 0);
  mirror.close();
});

test("without a key a write goes to its id again only if the server is the same one still", () => {
  for (const [run, expected] of [["bobbin-run-1", 1], ["bobbin-run-2", 0]]) {
    const { mirror, socket } = live({}, [...HANDSHAKE.features, "bobbin-run-1"]);
    mirror.write(2, "one");
    socket.lose();
    mock.timers.tick(15_000);
    const second = FakeSocket.newest;
    second.open();
    second.say(knowing(0, run));
    second.say(snapshot(1, node(2, "perhaps another")));
    assert.deepEqual(
      writes(second).map(({ ops }) => ops.length),
      [expected],
    );
    mirror.close();
  }
});

test("what is written while the snapshot of another server is awaited was meant for the old one", () => {
  const { mirror, socket } = live({}, [...HANDSHAKE.features, "bobbin-run-1"]);
  const second = again(socket);
  second.say(remembering("b.1", 0, "bobbin-run-2"));
  mirror.write(2, "for the old one");
  mirror.write("x/a", "by its key");
  second.say(snapshot(1, node(2, "perhaps another"), node(1, "a", "x/a")));
  assert.deepEqual(
    writes(second).map(({ ops }) => ops),
    [[], [cellSet(1, "by its key")]],
  );
  mirror.close();
});

test("a write for a node that is gone goes nowhere, and that is said", () => {
  const { mirror, socket } = live();
  const reasons = [];
  mirror.addEventListener("refused", ({ reason }) => reasons.push(reason));
  mirror.write("x/a", "one");
  socket.lose();
  mock.timers.tick(15_000);
  const second = FakeSocket.newest;
  second.open();
  second.say(knowing(0, "bobbin-run-1"));
  second.say(snapshot(1, node(1, "another", "y")));
  assert.deepEqual(writes(second), [{ base_epoch: 0, epoch: 1, ops: [] }]);
  assert.match(reasons[0], /no longer there/);
  second.say({ OutboxAck: { through_epoch: 1 } });
  assert.equal(mirror.unacknowledged, 0);
  mirror.close();
});

test("an outbox has one name over all links, and says how much of it is settled", () => {
  const { mirror, socket } = live();
  mirror.write("x/a", "one");
  mirror.write("x/a", "two");
  socket.say({ OutboxAck: { through_epoch: 1 } });
  const second = again(socket);
  const named = [socket, second].map(({ sent }) => sent[0].features.find((feature) => feature.startsWith("bobbin-outbox-")));
  assert.match(named[0], /^bobbin-outbox-[0-9a-f]{32}-0$/);
  assert.equal(named[1], named[0].replace(/0$/, "1"));
  mirror.close();
});

test("what the server has already is not sent again, and what it has not, is", () => {
  const { mirror, socket } = live();
  for (const text of ["one", "two", "three"]) mirror.write("x/a", text);
  socket.say({ OutboxAck: { through_epoch: 1 } });
  const second = again(socket);
  second.say(knowing(1));
  assert.equal(mirror.unacknowledged, 1);
  second.say(snapshot(1, node(1, "two", "x/a")));
  assert.deepEqual(writes(second), [{ base_epoch: 1, epoch: 2, ops: [cellSet(1, "three")] }]);
  second.say({ OutboxAck: { through_epoch: 2 } });
  assert.equal(mirror.unacknowledged, 0);
  mirror.close();
});

for (const [what, greeting] of [
  ["remembers nothing", { ...HANDSHAKE, features: ["json-base64", "bobbin-acked-writes"] }],
  ["was started anew", remembering("b.1", 0)],
  ["has forgotten the outbox", remembering("a.2", 0)],
]) {
  test(`a server that ${what} is not sent again what may have been done, and is sent the rest`, () => {
    const { mirror, socket } = live();
    const lost = [];
    mirror.addEventListener("refused", ({ names }) => lost.push(names));
    mirror.write("x/a", "sent");
    socket.lose();
    lost.length = 0;
    mirror.write("x/a", "kept");
    mock.timers.tick(15_000);
    const second = FakeSocket.newest;
    second.open();
    second.say(greeting);
    second.say(snapshot(1, node(1, "a", "x/a")));
    assert.deepEqual(writes(second), [
      { base_epoch: 0, epoch: 1, ops: [] },
      { base_epoch: 1, epoch: 2, ops: [cellSet(1, "kept")] },
    ]);
    assert.deepEqual(lost, [["x/a"]]);
    mirror.close();
  });
}

test("a write goes again to the memory that it went to, and to no other", () => {
  const { mirror, socket } = live();
  mirror.write("x/a", "one");
  let last = socket;
  for (const [memory, ops] of [["a.1", [cellSet(1, "one")]], ["b.1", []], ["a.1", []]]) {
    last = again(last);
    last.say(remembering(memory, 0));
    last.say(snapshot(1, node(1, "a", "x/a")));
    assert.deepEqual(writes(last), [{ base_epoch: 0, epoch: 1, ops }]);
  }
  mirror.close();
});

test("an id that another node has now is not written to", () => {
  const { mirror, socket } = live({}, [...HANDSHAKE.features, "bobbin-run-1"]);
  mirror.write("x/a", "for a");
  const second = again(socket);
  second.say(knowing(0, "bobbin-run-1"));
  second.say(snapshot(1, node(1, "door", "x/door")));
  assert.deepEqual(writes(second), [{ base_epoch: 0, epoch: 1, ops: [] }]);
  mirror.close();
});

test("a write that is longer than a frame is an error, and on a link with shorter frames it is given up", () => {
  const { mirror, socket } = live();
  assert.throws(() => mirror.write("x/a", "A".repeat(1 << 20)), /at most 1048576/);
  assert.equal(mirror.unacknowledged, 0);
  mirror.write("x/a", "A".repeat(1 << 19));
  mirror.write("x/a", "short");
  const second = again(socket);
  const lost = [];
  mirror.addEventListener("refused", ({ reason }) => lost.push(reason));
  second.say({ ...knowing(0), max_frame_size: 1 << 16 });
  second.say(snapshot(1, node(1, "a", "x/a")));
  assert.deepEqual(
    writes(second).map(({ ops }) => ops),
    [[], [cellSet(1, "short")]],
  );
  assert.match(lost[0], /longer/);
  mirror.close();
});

test("a server that acknowledges nothing is written to once, by the rule of epochs", () => {
  const { mirror, socket } = live({}, ["json-base64"]);
  mirror.write(2, "q");
  assert.deepEqual(writes(socket), [{ base_epoch: 5, epoch: 6, ops: [cellSet(2, "q")] }]);
  assert.equal(mirror.unacknowledged, 0);
  mirror.close();
});

test("a silent server is asked again, for answers and for acknowledgements", () => {
  const { mirror, socket } = connected();
  mock.timers.tick(5_000);
  assert.equal(requests(socket).length, 1);
  socket.say(snapshot(5, node(1, "a", "x/a")));
  mirror.write("x/a", "one");
  mock.timers.tick(5_000);
  assert.equal(writes(socket).length, 2);
  mirror.close();
});

test("an effect is asked for by its node", () => {
  const { mirror, socket } = live();
  mirror.trigger("x/a");
  assert.deepEqual(socket.sent.at(-1), { kind: "trigger_effect", node: 1 });
  assert.throws(() => mirror.trigger("nothing"), RangeError);
  mirror.close();
});

test("what cannot be written is an error at once", () => {
  const { mirror } = live({ writesMax: 1 });
  assert.throws(() => mirror.write("nothing", 1), RangeError);
  assert.throws(() => mirror.write("x/a", 1), /not a text/);
  mirror.write("x/a", "one");
  assert.throws(() => mirror.write("x/a", "two"), /too many/);
  mirror.close();
});

test("after close there is no way back, and no timer", () => {
  const { mirror, socket } = live();
  const made = FakeSocket.made.length;
  mirror.close();
  socket.lose();
  mock.timers.tick(60_000);
  assert.equal(mirror.status, "closed");
  assert.equal(FakeSocket.made.length, made);
  assert.equal(mirror.value("x/a"), "a");
});
