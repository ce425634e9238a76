import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Refusal } from "./refusal.ts";

const skewMs = 15 * 60_000;
const maxExpiresSeconds = 604_800;

/** Who may sign, and when it is now. */
export interface Verifier {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly now: () => number;
}

interface Claim {
  readonly credential: string;
  readonly date: string;
  readonly signedHeaders: string;
  readonly signature: string;
  readonly payload: string;
  readonly query: readonly (readonly [string, string])[];
}

/**
 * Checks the signature of a request, in its header or in its query (AWS Signature Version 4, "Authenticating
 * Requests" of the S3 API reference). Throws a {@link Refusal}.
 */
export function verifySignature(request: IncomingMessage, path: string, verifier: Verifier): void {
  const query = readQuery(request.url ?? "");
  const presigned = query.find(([name]) => name === "X-Amz-Signature");
  const claim = presigned ? readPresigned(query, verifier) : readHeader(request, query, verifier);
  const [accessKeyId, day, region, service] = claim.credential.split("/");
  if (accessKeyId !== verifier.accessKeyId) throw new Refusal(403, "InvalidAccessKeyId");
  if (region !== verifier.region)
    throw new Refusal(400, "AuthorizationHeaderMalformed", "the region is wrong", {
      Region: verifier.region,
    });
  const names = claim.signedHeaders.split(";");
  const unsigned = Object.keys(request.headers).filter(
    (name) => (name === "host" || name.startsWith("x-amz-")) && !names.includes(name),
  );
  if (unsigned.length > 0)
    throw new Refusal(403, "AccessDenied", `There were headers present which were not signed`);
  const canonical = [
    request.method,
    encodePath(path),
    claim.query
      .map(([name, value]) => `${encodeRfc3986(name)}=${encodeRfc3986(value)}`)
      .toSorted()
      .join("&"),
    ...names.map((name) => `${name}:${String(request.headers[name] ?? "").trim()}`),
    "",
    claim.signedHeaders,
    claim.payload,
  ].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", claim.date, scope, sha256(canonical)].join("\n");
  const key = [day ?? "", region, service ?? "", "aws4_request"].reduce<Buffer>(
    (secret, part) => hmac(secret, part),
    Buffer.from(`AWS4${verifier.secretAccessKey}`),
  );
  const due = hmac(key, text);
  const given = Buffer.from(claim.signature, "hex");
  if (given.length !== due.length || !timingSafeEqual(given, due))
    throw new Refusal(403, "SignatureDoesNotMatch", "The signatures differ", {
      AWSAccessKeyId: verifier.accessKeyId,
      StringToSign: text,
      SignatureProvided: claim.signature,
      CanonicalRequest: canonical,
    });
}

function readHeader(request: IncomingMessage, query: Claim["query"], { now }: Verifier): Claim {
  const {
    authorization = "",
    "x-amz-date": date,
    "x-amz-content-sha256": payload,
  } = request.headers;
  const match =
    /^AWS4-HMAC-SHA256 Credential=(\S+), ?SignedHeaders=(\S+), ?Signature=([0-9a-f]+)$/.exec(
      authorization,
    );
  if (!match) throw new Refusal(403, "AccessDenied", "Access Denied");
  const [, credential = "", signedHeaders = "", signature = ""] = match;
  if (typeof date !== "string" || typeof payload !== "string")
    throw new Refusal(400, "MissingSecurityHeader");
  if (!(Math.abs(toTime(date) - now()) <= skewMs)) throw new Refusal(403, "RequestTimeTooSkewed");
  return { credential, date, signedHeaders, signature, payload, query };
}

function readPresigned(query: Claim["query"], { now }: Verifier): Claim {
  const get = (name: string): string =>
    query.find(([candidate]) => candidate === `X-Amz-${name}`)?.[1] ?? "";
  const expires = Number(get("Expires"));
  if (!(expires >= 1 && expires <= maxExpiresSeconds))
    throw new Refusal(400, "AuthorizationQueryParametersError");
  const start = toTime(get("Date"));
  if (!(start - now() <= skewMs)) throw new Refusal(403, "AccessDenied", "not valid yet");
  if (!(now() <= start + expires * 1000))
    throw new Refusal(403, "AccessDenied", "Request has expired");
  return {
    credential: get("Credential"),
    date: get("Date"),
    signedHeaders: get("SignedHeaders"),
    signature: get("Signature"),
    payload: "UNSIGNED-PAYLOAD",
    query: query.filter(([name]) => name !== "X-Amz-Signature"),
  };
}

/** Names and values of a query, decoded. A plus is a plus. */
export function readQuery(url: string): readonly (readonly [string, string])[] {
  const [, query = ""] = url.split("?");
  return query
    .split("&")
    .filter((pair) => pair !== "")
    .map((pair) => {
      const [name = "", value = ""] = pair.split("=").map(decodeURIComponent);
      return [name, value] as const;
    });
}

function toTime(date: string): number {
  return Date.parse(
    date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"),
  );
}

function encodePath(path: string): string {
  return path.split("/").map(encodeRfc3986).join("/");
}

function encodeRfc3986(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
