import type { AuthInfo } from "@modelcontextprotocol/server";
import { openForeignFile } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import type { JWTVerifyGetKey } from "jose";
import { note, printable } from "../terminal/print.ts";
import type { JwtUsers } from "./user-rights.ts";

/** What a JSON Web Token says of its caller; `undefined` for one that is not valid here. */
export type VerifyJwt = (token: string) => Promise<AuthInfo | undefined>;

/** Signatures with the private key of the issuer: a server that checks one cannot make one. */
const algorithms = [
  "ES256",
  "ES384",
  "ES512",
  "PS256",
  "PS384",
  "PS512",
  "RS256",
  "RS384",
  "RS512",
];
const maxKeySetBytes = 2 ** 20;
const keySetTimeoutMs = 10_000;
const failurePauseMs = 5_000;
const clockToleranceSeconds = 5;
const maxTokenLength = 8_192;

/**
 * Verifies access tokens of an issuer by the keys at its URL, which are fetched when the first token comes and kept for 10 min. A
 * token needs `exp` and `sub`. Rejects with `unavailable` if there are no keys.
 */
export function createVerifyJwt({ issuer, audience, jwks }: JwtUsers): VerifyJwt {
  const fetchKeys = createKeySource(jwks);
  let keysLoad: Promise<JWTVerifyGetKey> | undefined;
  return async (token) => {
    if (token.length > maxTokenLength || token.split(".").length !== 3) return undefined;
    // most servers have no such users, and start without the library
    const { errors, jwtVerify } = await import("jose");
    const checks = {
      issuer,
      audience,
      algorithms: ["EdDSA", "Ed25519", ...algorithms],
      requiredClaims: ["exp", "sub"],
      clockTolerance: clockToleranceSeconds,
    };
    try {
      const { payload } = await jwtVerify(
        token,
        await (keysLoad ??= keysBy(jwks, fetchKeys)),
        checks,
      );
      const { sub, exp = 0, client_id: client } = payload;
      if (typeof sub !== "string" || sub === "") return undefined;
      const clientId = typeof client === "string" ? client : "";
      return { token, clientId, scopes: [], expiresAt: exp, extra: { iss: issuer, sub } };
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined;
      throw error;
    }
  };
}

async function keysBy(url: string, fetchKeys: () => Promise<Response>): Promise<JWTVerifyGetKey> {
  const { createRemoteJWKSet, customFetch } = await import("jose");
  return createRemoteJWKSet(new URL(url), { [customFetch]: fetchKeys });
}

/** Fetches the keys; after a failure not before some seconds, for every caller can send a token of an unknown key. */
function createKeySource(url: string): () => Promise<Response> {
  let pausedUntil = 0;
  return async () => {
    if (Date.now() < pausedUntil) throw keysFault();
    try {
      return Response.json(await fetchKeySet(url));
    } catch (error) {
      pausedUntil = Date.now() + failurePauseMs;
      throw keysFault(error instanceof Error ? error.message : String(error), error);
    }
  };
}

/** The key set, from the origin that the operator named, wherever it is, or by redirects only from public addresses. */
async function fetchKeySet(url: string): Promise<unknown> {
  const signal = AbortSignal.timeout(keySetTimeoutMs);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const file = await openForeignFile(url, { trustedOrigins: [new URL(url).origin], signal });
  await file.read((chunk) => {
    bytes += chunk.byteLength;
    if (bytes > maxKeySetBytes) throw new SluiceError("too_large", "the key set is too large");
    // the buffer is used again
    chunks.push(chunk.slice());
    return undefined;
  }, signal);
  const keySet = JSON.parse(Buffer.concat(chunks).toString());
  const { createLocalJWKSet } = await import("jose");
  createLocalJWKSet(keySet);
  return keySet;
}

/** The operator is told why, and callers are not. */
function keysFault(why?: string, cause?: unknown): SluiceError {
  if (why !== undefined) note(`sluice: no keys from users.jwt.jwks: ${printable(why)}`);
  return new SluiceError("unavailable", "the keys of the issuer cannot be fetched", { cause });
}
