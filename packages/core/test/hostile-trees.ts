import { formatTreeFrame } from "@sluice/core/internal";

/** What the call asked for and declared. */
export const demand = { files: 3, maxBytes: 100, maxFileBytes: 50 };
export const sha256 = "ab".repeat(32);
export const tag = { etag: "v1", modifiedMs: 5 };

/** A frame out of any JSON, or of bytes as they are. */
function raw(json: unknown, length?: number): Uint8Array {
  const body =
    json instanceof Uint8Array
      ? json
      : Buffer.from(typeof json === "string" ? json : JSON.stringify(json));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(length ?? body.length);
  return Buffer.concat([head, body]);
}

const text = (bytes: string): Uint8Array => Buffer.from(bytes);

/** A sound response: a file, a refusal and an empty file. */
export const sound: readonly Uint8Array[] = [
  formatTreeFrame({ i: 1, size: 5, ...tag }),
  text("hello"),
  formatTreeFrame({ ok: true, sha256 }),
  formatTreeFrame({ i: 0, error: { reason: "busy", retryAfterMs: 7 } }),
  formatTreeFrame({ i: 2, size: 0 }),
  formatTreeFrame({ ok: false }),
  formatTreeFrame({ end: true, count: 3 }),
];

const [head, content, trailer, refusal] = sound as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
const file = [head, content, trailer];
const rest = sound.slice(3);
const before = sound.slice(0, -1);
const end = (count: unknown, more = {}): Uint8Array => raw({ end: true, count, ...more });
const bad = (json: unknown, length?: number): Uint8Array[] => [raw(json, length)];

/** Responses of hostile or broken servers, by what is wrong with them. */
export const hostile: Readonly<Record<string, readonly Uint8Array[]>> = {
  "a frame of no bytes": bad("", 0),
  "a frame of one byte": bad("1", 1),
  "a frame of 2,049 bytes": bad("x".repeat(2_049)),
  "a frame of 4 GiB": bad("{}", 0xff_ff_ff_ff),
  "a length that reads as negative": bad("{}", 0x80_00_00_00),
  "a length beyond its JSON": [raw('{"i":0,"size":1}', 30), text("x"), ...sound],
  "a length before the end of its JSON": bad('{"i":0,"size":1}', 10),
  "an HTML page": [text("<!doctype html><title>502</title>")],
  "JSON-RPC": [text('{"jsonrpc":"2.0","id":1,"result":{}}')],
  "a frame that is not JSON": bad("{]"),
  "a frame that is not UTF-8": bad(Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
  "a frame with a byte order mark": bad("\uFEFF{}"),
  "a frame of a list": bad([1, 2]),
  "a frame of null": bad("null"),
  "a frame of a number": bad("12"),
  "a frame nested 1,000 deep": bad(`{"i":${"[".repeat(1_000)}${"]".repeat(1_000)}}`),
  "an empty object": bad({}),
  "a head without an index": bad({ size: 1 }),
  "a head with a negative index": bad({ i: -1, size: 1 }),
  "a head with an index that was not asked for": bad({ i: 3, size: 1 }),
  "a head with a fraction for an index": bad({ i: 0.5, size: 1 }),
  "a head with text for an index": bad({ i: "0", size: 1 }),
  "a head with an index beyond 2^53": bad(`{"i":9007199254740993,"size":1}`),
  "a head with a name of a property for an index": bad({ i: "__proto__", size: 1 }),
  "a head without a size": bad({ i: 0 }),
  "a head with a negative size": bad({ i: 0, size: -1 }),
  "a head with a fraction for a size": bad({ i: 0, size: 1.5 }),
  "a head with text for a size": bad({ i: 0, size: "1" }),
  "a head with an endless size": bad(`{"i":0,"size":1e999}`),
  "a head with a size beyond the bound of a file": bad({ i: 0, size: 51 }),
  "sizes beyond the bound of all files": [0, 1, 2].flatMap((i) => [
    raw({ i, size: 50 }),
    new Uint8Array(50),
    raw({ ok: true }),
  ]),
  "a head with a tag that is not text": bad({ i: 0, size: 1, etag: 1 }),
  "a head with a time that is not a count": bad({ i: 0, size: 1, modifiedMs: -1 }),
  "a file twice": [...file, ...file],
  "a file and its refusal": [...file, raw({ i: 1, error: { reason: "busy" } })],
  "a refusal and its file": [refusal, raw({ i: 0, size: 1 })],
  "a refusal that was not asked for": bad({ i: 9, error: { reason: "busy" } }),
  "a refusal with an unknown reason": bad({ i: 0, error: { reason: "toString" } }),
  "a refusal without a reason": bad({ i: 0, error: {} }),
  "a refusal that is text": bad({ i: 0, error: "busy" }),
  "a refusal with a negative pause": bad({ i: 0, error: { reason: "busy", retryAfterMs: -1 } }),
  "a refusal with a size": bad({ i: 0, size: 1, error: { reason: "busy" } }),
  "a head in place of a trailer": [head, content, raw({ i: 2, size: 1 })],
  "an end in place of a trailer": [head, content, end(1)],
  "a refusal in place of a trailer": [head, content, refusal],
  "fewer bytes than the size": [head, text("hell"), trailer, ...rest],
  "more bytes than the size": [head, text("hello!"), trailer, ...rest],
  "a trailer that is not sure": [head, content, raw({ ok: 1 })],
  "a trailer with a malformed digest": [head, content, raw({ ok: true, sha256: "AB".repeat(32) })],
  "a trailer without a file": [trailer],
  "an end at once": [end(0)],
  "an end before a file was answered": [...file, end(1)],
  "an end that counts too few": [...before, end(2)],
  "an end that counts too many": [...before, end(4)],
  "an end without a count": [...before, raw({ end: true })],
  "an end that says false": [...before, raw({ end: false, count: 3 })],
  "a byte after the end": [...sound, text("x")],
  "a second end": [...sound, end(3)],
  "another file after the end": [...sound, ...file],
};
