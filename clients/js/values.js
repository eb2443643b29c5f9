/**
 * What the bytes of a value mean, by its type tag. A tag that is not known here is no fault: its bytes stay bytes.
 *
 * | tag      | bytes                          | in JavaScript                                     |
 * |----------|--------------------------------|---------------------------------------------------|
 * | `i64`    | 8, little-endian               | a number, or a BigInt where a number is not exact |
 * | `f64`    | 8, little-endian               | a number                                          |
 * | `bool`   | 1, 0 or 1                      | a boolean                                         |
 * | `string` | UTF-8                          | a string                                          |
 * | `bytes`  | themselves                     | a Uint8Array                                      |
 * | `json`   | JSON in UTF-8                  | what JSON.parse gives                             |
 */

/** Bytes that are not what their tag says, or a value that a tag cannot stand for. */
export class ValueFault extends Error {}

const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const utf8 = new TextEncoder();
const I64_MIN = -(2n ** 63n);
const I64_MAX = 2n ** 63n - 1n;

function view(bytes, length, tag) {
  if (bytes.length !== length) throw new ValueFault(`${tag}: ${bytes.length} bytes, and ${length} are right`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function readText(bytes, tag) {
  try {
    return text.decode(bytes);
  } catch {
    throw new ValueFault(`${tag}: not UTF-8`);
  }
}

const readers = {
  i64(bytes) {
    const number = view(bytes, 8, "i64").getBigInt64(0, true);
    const plain = Number(number);
    return Number.isSafeInteger(plain) ? plain : number;
  },
  f64: (bytes) => view(bytes, 8, "f64").getFloat64(0, true),
  bool(bytes) {
    if (bytes.length !== 1 || bytes[0] > 1) throw new ValueFault("bool: neither 0 nor 1");
    return bytes[0] === 1;
  },
  string: (bytes) => readText(bytes, "string"),
  bytes: (bytes) => bytes,
  json(bytes) {
    const written = readText(bytes, "json");
    try {
      return JSON.parse(written);
    } catch {
      throw new ValueFault("json: not JSON");
    }
  },
};

const writers = {
  i64(value) {
    if (typeof value !== "bigint" && !Number.isSafeInteger(value)) throw new ValueFault(`i64: not an integer: ${value}`);
    const number = BigInt(value);
    if (number < I64_MIN || number > I64_MAX) throw new ValueFault(`i64: out of range: ${value}`);
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigInt64(0, number, true);
    return bytes;
  },
  f64(value) {
    if (typeof value !== "number") throw new ValueFault("f64: not a number");
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, value, true);
    return bytes;
  },
  bool(value) {
    if (typeof value !== "boolean") throw new ValueFault("bool: not a boolean");
    return Uint8Array.of(value ? 1 : 0);
  },
  string(value) {
    if (typeof value !== "string" || !isWellFormed(value)) throw new ValueFault("string: not a text");
    return utf8.encode(value);
  },
  bytes(value) {
    if (!(value instanceof Uint8Array)) throw new ValueFault("bytes: not a Uint8Array");
    return value;
  },
  json(value) {
    const written = JSON.stringify(sorted(value));
    if (written === undefined) throw new ValueFault("json: not a JSON value");
    return utf8.encode(written);
  },
};

/** A text without half of a pair; the standard function for it is newer than some browsers. */
function isWellFormed(value) {
  return text.decode(utf8.encode(value)) === value;
}

/** The same value with the keys of every object in ascending order, and nothing in it that JSON would turn into another. */
function sorted(value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new ValueFault("json: neither NaN nor infinities");
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") {
    if (["bigint", "function", "symbol", "undefined"].includes(typeof value)) throw new ValueFault("json: not a JSON value");
    return value;
  }
  const copy = Object.create(null);
  for (const key of Object.keys(value).sort()) copy[key] = sorted(value[key]);
  return copy;
}

/** The value that bytes stand for. Throws ValueFault. */
export function decodeValue(tag, bytes) {
  return Object.hasOwn(readers, tag) ? readers[tag](bytes) : bytes;
}

/** The bytes of a value. Throws ValueFault. */
export function encodeValue(tag, value) {
  return (Object.hasOwn(writers, tag) ? writers[tag] : writers.bytes)(value);
}
