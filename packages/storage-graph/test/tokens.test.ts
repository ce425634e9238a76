import { createGraphBackend, type TokenRequest } from "@sluice/storage-graph";
import { expect, test } from "vitest";
import { pattern, readKey, startEmulated } from "./emulated.ts";

const content = pattern(100_000);

const token = (name: string, lifeMs = 3_600_000, refreshMs?: number) => ({
  token: name,
  expiresOnTimestamp: Date.now() + lifeMs,
  ...(refreshMs !== undefined && { refreshAfterTimestamp: Date.now() + refreshMs }),
});

test("G26: one token serves many requests, also at once", async () => {
  await using graph = await startEmulated();
  let asked = 0;
  const { emulator } = graph;
  const credential = {
    getToken: () => {
      asked++;
      return emulator.credential.getToken();
    },
  };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: emulator.origins.graph,
  });
  graph.drive.put("a.bin", content);
  await Promise.all([
    backend.describe("a.bin"),
    backend.describe("a.bin"),
    readKey(backend, "a.bin"),
  ]);
  expect(asked).toBe(1);
  await backend.close?.();
});

test.each([
  ["five minutes before it expires", token("old", 299_000)],
  ["when it says so", token("old", 3_600_000, -1)],
])("a token is replaced %s", async (_, old) => {
  await using graph = await startEmulated();
  const given = [old, await graph.emulator.credential.getToken()];
  const credential = { getToken: async () => given.shift() ?? null };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  // the first one is refused by the emulator, so it is also asked for at once
  expect((await backend.list()).objects).toEqual([]);
  expect(given).toEqual([]);
  await backend.close?.();
});

test("a refused token is renewed with the claims that were demanded, once", async () => {
  await using graph = await startEmulated();
  const requests: TokenRequest[] = [];
  const credential = {
    getToken: async (_scopes: string[], request: TokenRequest = {}) => {
      requests.push(request);
      return graph.emulator.credential.getToken();
    },
  };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  graph.drive.put("a.bin", content);
  const claims = '{"access_token":{"nbf":{"essential":true}}}';
  const challenge = `Bearer error="insufficient_claims", claims="${Buffer.from(claims).toString("base64")}"`;
  graph.emulator.fault({ on: /^GET graph/, status: 401, challenge });
  await backend.describe("a.bin");
  expect(requests.map((request) => request.claims)).toEqual([undefined, claims]);
  expect(requests.every(({ enableCae }) => enableCae)).toBe(true);
  graph.emulator.expireTokens();
  await backend.describe("a.bin");
  expect(requests).toHaveLength(3);
  graph.emulator.fault({ on: /^GET graph/, status: 401, times: 2 });
  await expect(backend.describe("a.bin")).rejects.toMatchObject({ code: "unauthenticated" });
  expect(requests).toHaveLength(4);
  await backend.close?.();
});

test("takes the token that another request has renewed by then, when its own is refused late", async () => {
  await using graph = await startEmulated();
  let asked = 0;
  const credential = {
    getToken() {
      asked++;
      return graph.emulator.credential.getToken();
    },
  };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  graph.drive.put("early.bin", content);
  graph.drive.put("late.bin", content);
  graph.emulator.fault({ on: /early/, status: 401 });
  graph.emulator.fault({ on: /late/, status: 401, delayMs: 200 });
  const late = backend.describe("late.bin");
  await expect.poll(() => graph.sent("graph").length).toBe(1);
  await backend.describe("early.bin");
  await late;
  expect(asked).toBe(2);
  await backend.close?.();
});

test.each([
  ["fails", () => Promise.reject(new Error("no login"))],
  ["thinks", () => new Promise<null>(() => {})],
])("a credential that %s holds nobody up while the old token is good", async (_, renew) => {
  await using graph = await startEmulated();
  let first = true;
  const credential = {
    async getToken() {
      if (!first) return renew();
      first = false;
      return { ...(await graph.emulator.credential.getToken()), refreshAfterTimestamp: 0 };
    },
  };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  for (let n = 0; n < 3; n++) expect((await backend.list()).objects).toEqual([]);
  await backend.close?.();
});

test("a credential that has none is unauthenticated, and asked again next time", async () => {
  await using graph = await startEmulated();
  const given = [Promise.reject(new Error("no login")), Promise.resolve(null)];
  for (const answer of given) answer.catch(() => {});
  const credential = { getToken: () => given.shift() ?? graph.emulator.credential.getToken() };
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  for (let n = 0; n < 2; n++)
    await expect(backend.list()).rejects.toMatchObject({ code: "unauthenticated" });
  expect((await backend.list()).objects).toEqual([]);
  await backend.close?.();
});

test.each([
  [undefined, "https://graph.microsoft.com/.default"],
  ["https://graph.microsoft.us/", "https://graph.microsoft.us/.default"],
  ["https://microsoftgraph.chinacloudapi.cn", "https://microsoftgraph.chinacloudapi.cn/.default"],
])("G25: the scope is the one of the cloud: %j", async (baseUrl, scope) => {
  const scopes: string[] = [];
  const credential = {
    async getToken([first = ""]: string[]) {
      scopes.push(first);
      return null;
    },
  };
  const backend = createGraphBackend({ credential, driveId: "b!x", ...(baseUrl && { baseUrl }) });
  await expect(backend.list()).rejects.toMatchObject({ code: "unauthenticated" });
  expect(scopes).toEqual([scope]);
  await backend.close?.();
});

test.each(["http://graph.microsoft.com", "ftp://localhost", "https://graph.microsoft.com/v1.0"])(
  "no token goes to %s",
  (baseUrl) => {
    const credential = { getToken: async () => null };
    expect(() => createGraphBackend({ credential, driveId: "b!x", baseUrl })).toThrow(TypeError);
  },
);

test.each(["../up", "a/../b", "a:b", "a."])("a root at %j is a mistake of the program", (path) => {
  const options = { credential: { getToken: async () => null }, driveId: "b!x", root: { path } };
  expect(() => createGraphBackend(options)).toThrow(TypeError);
});
