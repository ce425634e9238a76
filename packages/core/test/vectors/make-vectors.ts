/**
 * Computes sealed tokens a second time, only from the layout and with node:crypto: HKDF, HMAC and
 * ChaCha20-Poly1305 are OpenSSL's, HChaCha20 is written out below. Nothing of the package is
 * imported. Run it to write sealed-tokens.json anew: node --import tsx make-vectors.ts
 */
import { createCipheriv, createHash, createHmac, hkdfSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

interface Vector {
  readonly name: string;
  readonly purpose: string;
  readonly audience: string;
  /** Unix milliseconds at which the token is opened. */
  readonly now: number;
  readonly token: string;
}

interface PassVector extends Vector {
  readonly nonce: string;
  readonly id: string;
  readonly terms: Terms;
}

interface FailVector extends Vector {
  readonly code: "not_found" | "expired";
}

interface Terms {
  readonly key: string;
  readonly use: "window" | "once" | "lease";
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly etag?: string;
  readonly principal?: {
    readonly issuer: string;
    readonly subject: string;
    readonly clientId: string;
    readonly sessionId?: string;
  };
}

interface Vectors {
  readonly keys: readonly { readonly kid: string; readonly state: string; readonly key: string }[];
  readonly pass: readonly PassVector[];
  readonly fail: readonly FailVector[];
}

const keys = [
  { kid: "k1", state: "current", key: digest("sluice vector key k1").toString("hex") },
  { kid: "k0", state: "previous", key: digest("sluice vector key k0").toString("hex") },
];
const audience = "https://mcp.example.com/mcp";
const start = 1_800_000_000;
const principal = { issuer: "https://id.example", subject: "user-1", clientId: "client-1" };
const inSession = { ...principal, sessionId: "5e551011" };

/** The parts of one token; each can be overridden to make a wrong one. */
interface Recipe {
  terms: Terms;
  kid: string;
  signer: string;
  purpose: string;
  info: string;
  audience: string;
  version: string;
  header: Buffer;
  edit(plain: Buffer): Buffer;
}

function seal(name: string, parts: Partial<Recipe> & { terms: Terms }): PassVector {
  const { terms, kid = "k1", purpose = "download", version = "v1" } = parts;
  const ikm = keyOf(parts.signer ?? kid);
  const nonce = digest(`nonce ${name}`).subarray(0, 24);
  const id = digest(`id ${name}`).subarray(0, 16);
  const plain = plainOf(terms, ikm, id);
  const box = xchacha20poly1305(
    hkdf(ikm, parts.info ?? `sluice/v1/${purpose}`),
    nonce,
    parts.header ?? lp("sluice.v1", kid, purpose, parts.audience ?? audience),
    parts.edit?.(plain) ?? plain,
  );
  return {
    name,
    purpose,
    audience,
    now: start * 1000 + 1000,
    nonce: nonce.toString("hex"),
    id: id.toString("hex"),
    terms,
    token: `${version}.${kid}.${Buffer.concat([nonce, box]).toString("base64url")}`,
  };
}

function keyOf(kid: string): Buffer {
  return Buffer.from(keys.find((key) => key.kid === kid)!.key, "hex");
}

function plainOf(terms: Terms, ikm: Buffer, id: Buffer): Buffer {
  const handle = Buffer.from(terms.key);
  const session = terms.principal?.sessionId ? 32 : 0;
  const needed = 59 + handle.length + session;
  const plain = Buffer.alloc([144, 480, 1152].find((length) => needed <= length)!);
  let flags = { window: 0, once: 2, lease: 4 }[terms.use];
  if (terms.principal) {
    const { issuer, subject, clientId, sessionId = "" } = terms.principal;
    const fields = lp(issuer, subject, clientId, subject === "" ? sessionId : "");
    mac(ikm, "principal", fields).copy(plain, 25);
    if (sessionId) {
      flags |= 8;
      const told = Buffer.concat([lp("sluice.v1 resource"), Buffer.from(sessionId)]);
      createHash("sha256")
        .update(told)
        .digest()
        .copy(plain, 59 + handle.length);
    }
  } else flags |= 1;
  if (terms.etag !== undefined) {
    flags |= 16;
    mac(ikm, "revision", lp(terms.etag)).copy(plain, 41);
  }
  plain.writeUInt8(flags, 0);
  plain.writeUInt32BE(terms.issuedAt / 1000, 1);
  plain.writeUInt32BE(terms.expiresAt / 1000, 5);
  id.copy(plain, 9);
  plain.writeUInt16BE(handle.length, 57);
  handle.copy(plain, 59);
  return plain;
}

/** The record of the store for a stored token. */
export interface StoredVector {
  readonly purpose: "download";
  readonly audience: string;
  readonly terms: Terms;
  /** The random bytes behind it in hex, as they are asked for. */
  readonly random: string;
  readonly token: string;
  readonly id: string;
  /** Name of the record, and its text. */
  readonly name: string;
  readonly record: string;
}

/** Computes a stored token and its record from their layout. */
export function makeStoredVector(): StoredVector {
  const secret = digest("secret of a stored token").subarray(0, 24);
  const id = digest("id of a stored token").subarray(0, 16);
  const terms: Terms = { ...bound, use: "lease", etag: "0x8DD1" };
  const nonce = digest("nonce of a stored token").subarray(0, 24);
  const token = secret.toString("base64url");
  const key = createHmac("sha256", hkdf(keyOf("k1"), "sluice/v1/stored/download"));
  const header = lp("sluice.v1", "k1", "stored/download", audience);
  const plain = plainOf(terms, keyOf("k1"), id);
  const box = xchacha20poly1305(key.update(token).digest(), nonce, header, plain);
  return {
    purpose: "download",
    audience,
    terms,
    random: Buffer.concat([secret, nonce, id]).toString("hex"),
    token,
    id: id.toString("base64url"),
    name: `token ${digest(token).toString("hex")}`,
    record: `v1.k1.${Buffer.concat([nonce, box]).toString("base64url")}`,
  };
}

const bound: Terms = {
  key: "reports/2026/q1.pdf",
  use: "window",
  issuedAt: start * 1000,
  expiresAt: (start + 300) * 1000,
  principal,
};
const self: Terms = {
  key: "reports/2026/q1.pdf",
  use: "once",
  issuedAt: start * 1000,
  expiresAt: (start + 60) * 1000,
};

/** A token whose plain text was changed before sealing, as only a holder of the key could. */
function edited(name: string, terms: Terms, edit: (plain: Buffer) => void): PassVector {
  return seal(name, {
    terms,
    edit(plain) {
      edit(plain);
      return plain;
    },
  });
}

export function makeVectors(): Vectors {
  const good = seal("the reference token", { terms: bound });
  const [head, body] = [good.token.slice(0, 6), good.token.slice(6)];
  const lastDigit = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const respelled = lastDigit[lastDigit.indexOf(body.at(-1)!) + 1]!;
  const pass: PassVector[] = [
    good,
    seal("self-authenticating, once", { terms: self }),
    seal("lease, pinned to a version", { terms: { ...bound, use: "lease", etag: "0x8DD1" } }),
    seal("bound to a session", { terms: { ...bound, principal: inSession } }),
    seal("a session without a subject", {
      terms: { ...bound, principal: { ...inSession, subject: "" } },
    }),
    seal("the longest handle of the short class in a session", {
      terms: { ...bound, key: "a".repeat(53), principal: inSession },
    }),
    seal("the longest handle in a session", {
      terms: { ...bound, key: "a".repeat(1024), principal: inSession },
    }),
    seal("every flag that goes together", {
      terms: { ...bound, use: "once", principal: inSession, etag: "" },
    }),
    seal("the previous key", { terms: bound, kid: "k0" }),
    seal("upload", { terms: { ...bound, expiresAt: (start + 900) * 1000 }, purpose: "upload" }),
    seal("resume", { terms: bound, purpose: "resume" }),
    seal("a handle of one byte", { terms: { ...bound, key: "a" } }),
    seal("the longest handle of the short class", { terms: { ...bound, key: "a".repeat(85) } }),
    seal("the shortest handle of the middle class", {
      terms: { ...bound, key: "a".repeat(86) },
    }),
    seal("the longest handle of the middle class", {
      terms: { ...bound, key: "é".repeat(210) + "a" },
    }),
    seal("the shortest handle of the long class", { terms: { ...bound, key: "a".repeat(422) } }),
    seal("the longest handle", { terms: { ...bound, key: "a".repeat(1024) } }),
    seal("a handle outside the basic plane", { terms: { ...bound, key: "\ufeff😀/ü\u0000" } }),
    seal("the longest life", { terms: { ...bound, expiresAt: (start + 3600) * 1000 } }),
    { ...good, name: "the last second with clock skew", now: (start + 304) * 1000 + 999 },
    { ...good, name: "the first second with a fast minting clock", now: (start - 60) * 1000 },
  ];
  const fail: (Vector & { code?: "expired" })[] = [
    { ...good, name: "over", now: (start + 305) * 1000, code: "expired" },
    { ...good, name: "from the future", now: (start - 60) * 1000 - 1 },
    { ...good, name: "another purpose", purpose: "upload" },
    { ...good, name: "another audience", audience: "https://mcp.example.com/other" },
    { ...good, name: "another version", token: good.token.replace("v1.", "v2.") },
    { ...good, name: "another key id of the ring", token: good.token.replace("k1", "k0") },
    { ...good, name: "an unknown key id", token: good.token.replace("k1", "zz") },
    { ...good, name: "a key id in capitals", token: good.token.replace("k1", "K1") },
    {
      ...good,
      name: "unused bits of the last digit set",
      token: good.token.slice(0, -1) + respelled,
    },
    { ...good, name: "padding", token: `${good.token}==` },
    { ...good, name: "padding in place of digits", token: `${good.token.slice(0, -2)}==` },
    { ...good, name: "one character less", token: good.token.slice(0, -1) },
    { ...good, name: "one character more", token: `${good.token}A` },
    { ...good, name: "a line break at the end", token: `${good.token}\n` },
    { ...good, name: "a line break for the last character", token: `${good.token.slice(0, -1)}\n` },
    { ...good, name: "white space in front", token: ` ${good.token}` },
    { ...good, name: "the plain base64 alphabet", token: `${head}${"/".repeat(body.length)}` },
    { ...good, name: "nothing but zeros", token: `${head}${"A".repeat(body.length)}` },
    { ...good, name: "empty", token: "" },
    { ...good, name: "first nonce bit turned", token: turnBit(good.token, 0) },
    { ...good, name: "first cipher text bit turned", token: turnBit(good.token, 24 * 8) },
    { ...good, name: "last tag bit turned", token: turnBit(good.token, 184 * 8 - 1) },
    seal("a key of another purpose", { terms: bound, info: "sluice/v1/principal" }),
    seal("sealed with the other key", { terms: bound, signer: "k0" }),
    seal("a header without length prefixes", {
      terms: bound,
      header: Buffer.from(`sluice.v1k1download${audience}`),
    }),
    seal("no header", { terms: bound, header: Buffer.alloc(0) }),
    edited("flag 5 set", bound, (plain) => plain.writeUInt8(32, 0)),
    edited("flag 7 set", bound, (plain) => plain.writeUInt8(128, 0)),
    edited("once and lease", bound, (plain) => plain.writeUInt8(6, 0)),
    edited("bound without a principal", self, (plain) => plain.writeUInt8(2, 0)),
    edited("self-authenticating with a principal", bound, (plain) => plain.writeUInt8(1, 0)),
    edited("self-authenticating in a session", self, (plain) => plain.writeUInt8(11, 0)),
    edited("in a session without its tag", bound, (plain) => plain.writeUInt8(8, 0)),
    edited("the tag of a session without its flag", { ...bound, principal: inSession }, (plain) =>
      plain.writeUInt8(0, 0),
    ),
    edited("pinned to nothing", bound, (plain) => plain.writeUInt8(16, 0)),
    edited("a revision that is not pinned", bound, (plain) => plain.writeUInt8(1, 41)),
    edited("non-zero padding", bound, (plain) => plain.writeUInt8(1, plain.length - 1)),
    edited("non-zero padding right after the handle", bound, (plain) =>
      plain.writeUInt8(32, 59 + 19),
    ),
    edited("no handle", bound, (plain) => plain.fill(0, 57)),
    edited("a handle longer than its space", bound, (plain) => plain.writeUInt16BE(86, 57)),
    edited("a handle longer than any", bound, (plain) => plain.writeUInt16BE(65535, 57)),
    edited("a handle that is not UTF-8", bound, (plain) => plain.writeUInt8(0xff, 59)),
    edited("no life", bound, (plain) => plain.writeUInt32BE(start, 5)),
    edited("over before it began", bound, (plain) => plain.writeUInt32BE(start - 1, 5)),
    edited("a longer life than its purpose allows", bound, (plain) =>
      plain.writeUInt32BE(start + 3601, 5),
    ),
    edited("a longer life than its auth allows", self, (plain) =>
      plain.writeUInt32BE(start + 901, 5),
    ),
    edited("an endless life", bound, (plain) => plain.writeUInt32BE(0xffffffff, 5)),
    seal("a longer class than the handle needs", {
      terms: bound,
      edit: (plain) => Buffer.concat([plain, Buffer.alloc(480 - 144)]),
    }),
    seal("a handle over 1,040 bytes", { terms: { ...bound, key: "a".repeat(1041) } }),
  ];
  return {
    keys,
    pass,
    fail: fail.map((vector) => ({
      name: vector.name,
      purpose: vector.purpose,
      audience: vector.audience,
      now: vector.now,
      token: vector.token,
      code: vector.code ?? "not_found",
    })),
  };
}

function turnBit(token: string, bit: number): string {
  const bytes = Buffer.from(token.slice(6), "base64url");
  bytes[bit >> 3]! ^= 128 >> (bit & 7);
  return token.slice(0, 6) + bytes.toString("base64url");
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function lp(...fields: string[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(Buffer.byteLength(field));
      return [length, Buffer.from(field)];
    }),
  );
}

function hkdf(ikm: Buffer, info: string): Buffer {
  return Buffer.from(hkdfSync("sha256", ikm, "", info, 32));
}

function mac(ikm: Buffer, kind: string, data: Buffer): Buffer {
  return createHmac("sha256", hkdf(ikm, `sluice/v1/${kind}`))
    .update(data)
    .digest()
    .subarray(0, 16);
}

/** draft-irtf-cfrg-xchacha-03 §2.3: a ChaCha20 key from the first 16 bytes of the nonce, the rest for RFC 8439. */
function xchacha20poly1305(key: Buffer, nonce: Buffer, header: Buffer, plain: Buffer): Buffer {
  const subkey = hchacha20(key, nonce.subarray(0, 16));
  const iv = Buffer.concat([Buffer.alloc(4), nonce.subarray(16)]);
  const cipher = createCipheriv("chacha20-poly1305", subkey, iv, { authTagLength: 16 });
  cipher.setAAD(header, { plaintextLength: plain.length });
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function hchacha20(key: Buffer, nonce: Buffer): Buffer {
  const input = Buffer.concat([Buffer.from("expand 32-byte k"), key, nonce]);
  const x = Array.from({ length: 16 }, (_, word) => input.readUInt32LE(word * 4));
  const quarter = (a: number, b: number, c: number, d: number) => {
    for (const [to, from, mixed, bits] of [
      [a, b, d, 16],
      [c, d, b, 12],
      [a, b, d, 8],
      [c, d, b, 7],
    ] as const) {
      x[to] = (x[to]! + x[from]!) >>> 0;
      x[mixed] = rotate(x[mixed]! ^ x[to], bits);
    }
  };
  for (let round = 0; round < 10; round++) {
    for (let column = 0; column < 4; column++) quarter(column, 4 + column, 8 + column, 12 + column);
    for (let first = 0; first < 4; first++)
      quarter(first, 4 + ((first + 1) & 3), 8 + ((first + 2) & 3), 12 + ((first + 3) & 3));
  }
  const output = Buffer.alloc(32);
  for (const [at, word] of [0, 1, 2, 3, 12, 13, 14, 15].entries())
    output.writeUInt32LE(x[word]!, at * 4);
  return output;
}

function rotate(word: number, bits: number): number {
  return ((word << bits) | (word >>> (32 - bits))) >>> 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = fileURLToPath(new URL("sealed-tokens.json", import.meta.url));
  const tables = Object.entries(makeVectors()).map(([name, rows]: [string, readonly object[]]) => {
    const lines = rows.map((row) => JSON.stringify(row));
    return `"${name}": [\n${lines.join(",\n")}\n]`;
  });
  writeFileSync(file, `{\n${tables.join(",\n")}\n}\n`);
}
