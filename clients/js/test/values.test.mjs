import assert from "node:assert/strict";
import { test } from "node:test";

import { ValueFault, decodeValue, encodeValue } from "../values.js";

const hex = (bytes) => Buffer.from(bytes).toString("hex");

for (const [tag, value, bytes] of [
  ["i64", 1, "0100000000000000"],
  ["i64", -2, "feffffffffffffff"],
  ["i64", 2n ** 63n - 1n, "ffffffffffffff7f"],
  ["f64", 0.5, "000000000000e03f"],
  ["bool", true, "01"],
  ["string", "é\r\n", "c3a90d0a"],
  ["string", "\ufeffx", "efbbbf78"],
  ["json", { b: [1, null], a: "x" }, Buffer.from('{"a":"x","b":[1,null]}').toString("hex")],
]) {
  test(`${tag} of ${hex(Buffer.from(bytes, "hex"))}`, () => {
    assert.equal(hex(encodeValue(tag, value)), bytes);
    assert.deepEqual(decodeValue(tag, Uint8Array.from(Buffer.from(bytes, "hex"))), value);
  });
}

test("an unknown tag leaves bytes as they are", () => {
  const bytes = Uint8Array.of(1, 2);
  assert.equal(decodeValue("toString", bytes), bytes);
  assert.equal(encodeValue("my/tag", bytes), bytes);
});

for (const [tag, bytes] of [
  ["i64", [1]],
  ["f64", []],
  ["bool", [2]],
  ["string", [0xff]],
  ["json", [0x7b]],
]) {
  test(`${tag} refuses ${JSON.stringify(bytes)}`, () => {
    assert.throws(() => decodeValue(tag, Uint8Array.from(bytes)), ValueFault);
  });
}

for (const [tag, value] of [
  ["i64", 1.5],
  ["i64", 2n ** 63n],
  ["f64", "1"],
  ["bool", 1],
  ["string", "\ud800"],
  ["bytes", "x"],
  ["json", { a: NaN }],
  ["json", undefined],
  ["json", [() => 1]],
]) {
  test(`${tag} cannot be ${String(value)}`, () => {
    assert.throws(() => encodeValue(tag, value), ValueFault);
  });
}
