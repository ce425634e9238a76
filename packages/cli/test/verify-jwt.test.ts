// Access tokens of an issuer: by its keys, for this server, in time, and nothing else.
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { createVerifyJwt, type VerifyJwt } from "../src/serve/verify-jwt.ts";
import { createAuthenticate } from "../src/serve/listen.ts";

const issuer = "https://id.example.com";
const audience = "https://files.example.com/mcp";
type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;
let own: KeyPair;
let foreign: KeyPair;
beforeAll(async () => {
  own = await generateKeyPair("ES256", { extractable: true });
  foreign = await generateKeyPair("ES256");
});

/** A verifier whose issuer answers requests for its keys as told, and how many there were. */
async function verifierWith(answer?: RequestListener) {
  const key = { ...(await exportJWK(own.publicKey)), kid: "k1", alg: "ES256" };
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    if (answer) return answer(request, response);
    response.end(JSON.stringify({ keys: [key] }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const jwks = `http://127.0.0.1:${port}/jwks.json`;
  const verify = createVerifyJwt({ issuer, audience, jwks, scopes: ["read"] });
  return { verify, countRequests: () => requests };
}

const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

interface Forgery {
  readonly claims?: Record<string, unknown>;
  readonly key?: KeyPair["privateKey"] | Uint8Array;
  readonly header?: { readonly alg: string; readonly kid?: string };
}

function tokenWith({ claims = {}, key = own.privateKey, header }: Forgery = {}): Promise<string> {
  const payload = { iss: issuer, aud: audience, sub: "u1", exp: nowSeconds() + 600, ...claims };
  return new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: "k1", ...header }).sign(key);
}

test("a token of the issuer names its subject and its end, and the keys are fetched once", async () => {
  const { verify, countRequests } = await verifierWith();
  const exp = nowSeconds() + 600;
  const token = await tokenWith({ claims: { exp, client_id: "app", scope: "admin" } });
  for (let round = 0; round < 3; round++)
    expect(await verify(token)).toEqual({
      token,
      clientId: "app",
      scopes: [],
      expiresAt: exp,
      extra: { iss: issuer, sub: "u1" },
    });
  expect(countRequests()).toBe(1);
});

test.each<[string, Forgery]>([
  ["of another issuer", { claims: { iss: "https://id.example.com/" } }],
  ["for another server", { claims: { aud: "https://other.example.com" } }],
  ["that has expired", { claims: { exp: 1 } }],
  ["that never expires", { claims: { exp: undefined } }],
  ["of a later time", { claims: { nbf: 4_000_000_000 } }],
  ["of nobody", { claims: { sub: undefined } }],
  ["of an empty subject", { claims: { sub: "" } }],
  ["of a key that the issuer does not have", { header: { alg: "ES256", kid: "k2" } }],
])("a token %s is refused", async (_, forgery) => {
  const { verify } = await verifierWith();
  expect(await verify(await tokenWith(forgery))).toBeUndefined();
});

test("a token that another key signed, or none, or the public key as a secret, is refused", async () => {
  const { verify } = await verifierWith();
  const publicText = new TextEncoder().encode(await exportSPKI(own.publicKey));
  const unsigned = new UnsecuredJWT({ sub: "u1" }).setIssuer(issuer).setAudience(audience);
  const good = await tokenWith();
  for (const token of [
    await tokenWith({ key: foreign.privateKey }),
    await tokenWith({ key: publicText, header: { alg: "HS256", kid: "k1" } }),
    unsigned.setExpirationTime("1h").encode(),
    `${good.slice(0, -4)}AAAA`,
    `${good}.x`,
    "opaque",
    `${good}${"a".repeat(9_000)}`,
  ])
    expect(await verify(token)).toBeUndefined();
  expect(await verify(good)).toBeDefined();
});

test.each<[string, RequestListener]>([
  ["an error", (_, response) => void response.writeHead(500).end()],
  ["text", (_, response) => void response.end("keys")],
  ["another object", (_, response) => void response.end("{}")],
  [
    "a redirect to a private address",
    (_, response) => void response.writeHead(302, { location: "https://10.0.0.1/keys" }).end(),
  ],
  [
    "a redirect to plain http",
    (_, response) => void response.writeHead(302, { location: "http://example.com/keys" }).end(),
  ],
  ["more than 1 MiB", (_, response) => void response.end(" ".repeat(2 ** 20 + 1))],
])(
  "an issuer whose keys are %s makes the server unavailable, and is not asked again at once",
  async (_, answer) => {
    const { verify, countRequests } = await verifierWith(answer);
    vi.spyOn(process.stderr, "write").mockReturnValue(true);
    onTestFinished(() => void vi.restoreAllMocks());
    for (let round = 0; round < 3; round++)
      await expect(verify(await tokenWith())).rejects.toMatchObject({ code: "unavailable" });
    expect(countRequests()).toBe(1);
  },
);

test("a request is 503 while no token can be checked, and 401 without a valid one", async () => {
  const statusOf = async (verify: VerifyJwt): Promise<number> => {
    const admit = async (token: string) => {
      const authInfo = await verify(token);
      return authInfo && { authInfo };
    };
    const refusals = { add() {}, close() {} };
    const authenticate = createAuthenticate(admit, refusals);
    const server = createServer((request, response) => {
      const next = () => void response.writeHead(200).end();
      void authenticate(request, response, next, { kind: "mcp" } as never);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const headers = { authorization: "Bearer a.b.c", connection: "close" };
    return (await fetch(`http://127.0.0.1:${port}/`, { headers })).status;
  };
  expect(await statusOf(() => Promise.reject(new Error("no keys")))).toBe(503);
  expect(await statusOf(async () => undefined)).toBe(401);
  expect(await statusOf(async (token) => ({ token, clientId: "", scopes: [] }))).toBe(200);
});
