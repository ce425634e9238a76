import { generateKeyPairSync, sign } from "node:crypto";

/** A key and a certificate that vouches for itself, in PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const { length } = body;
  const head = length < 128 ? [tag, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), body]);
};
const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"));
const time = (at: Date) =>
  der(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]/g, "").slice(0, 14)}Z`));

const ecdsaWithSha256 = sequence(oid("2a8648ce3d040302"));
/** Each has a subject of its own: of several authorities of one name, OpenSSL may ask the wrong one. */
let made = 0;
const nextName = () => {
  const name = Buffer.from(`loopback ${++made}`);
  return sequence(der(0x31, sequence(oid("550403"), der(0x0c, name))));
};

/** What a certificate says. */
export interface CertificateOptions {
  /** The only name that it is for. Default: localhost, and 127.0.0.1. */
  readonly name?: string;
  /** Days from now on which it begins and ends to be valid. Default: an hour ago, and in a day. */
  readonly days?: readonly [from: number, to: number];
}

const dayMs = 86_400_000;

/** A fresh certificate that is its own authority (RFC 5280 §4). */
export function createCertificate(options: CertificateOptions = {}): Certificate {
  const { days: [from, to] = [-1 / 24, 1] } = options;
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const now = Date.now();
  const name = nextName();
  const alternatives = sequence(
    der(0x82, Buffer.from(options.name ?? "localhost")),
    ...(options.name === undefined ? [der(0x87, Buffer.from([127, 0, 0, 1]))] : []),
  );
  const extensions = sequence(
    sequence(oid("551d11"), der(0x04, alternatives)),
    sequence(oid("551d13"), der(0x04, sequence(der(0x01, Buffer.from([0xff]))))),
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(time(new Date(now + from * dayMs)), time(new Date(now + to * dayMs))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, extensions),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)]);
  const certificate = sequence(body, ecdsaWithSha256, der(0x03, signature));
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64").replace(/.{64}(?=.)/g, "$&\n")}\n-----END CERTIFICATE-----\n`,
  };
}
