import { randomBytes } from "node:crypto";
import { appendFile, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { streamResource } from "@sluice/client";
import type { RevisionKind } from "@sluice/core/internal";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { decodeJwt, UnsecuredJWT, type JWTPayload } from "jose";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { listen } from "../bed/listen.ts";
import { call as callRaw, send, type RawAnswer } from "../bed/raw.ts";
import type { TokenFaults } from "../bed/token-issuer.ts";
import { startTrialServer, type TrialClient, type TrialServer } from "../bed/trial-server.ts";

const genomics = "hipaa://trial-OncoDrug-734/genomics.parquet";
const vitals = "hipaa://trial-CardioMab-12/vitals.csv";
const missing = "hipaa://trial-OncoDrug-734/nothing.parquet";
/** Of a trial whose file changes while it is watched. */
const watched = "hipaa://trial-Watch-1/log.txt";
const content = randomBytes(3_000_000);
const approved_trials = ["trial-OncoDrug-734"];
/** The principal investigator of one trial, and two callers with less. */
const investigator = { sub: "ada", role: "PI", approved_trials };
const nurse = { sub: "cleo", role: "nurse", approved_trials };
const otherInvestigator = { sub: "ben", role: "PI", approved_trials: ["trial-CardioMab-12"] };
const watcher = { sub: "uma", role: "PI", approved_trials: ["trial-Watch-1"] };

let server: TrialServer;

beforeAll(async () => {
  const files = { [genomics]: content, [vitals]: "pulse\n72\n", [watched]: "1\n" };
  server = await startTrialServer(files);
});
afterAll(() => server[Symbol.asyncDispose]());

/** The official client of one user. */
async function connect(revision: RevisionKind, claims: JWTPayload): Promise<TrialClient> {
  const connected = await server.connect(revision, claims);
  onTestFinished(() => connected.client.close());
  return connected;
}

/** What a call rejects with, without the name that was asked for. */
async function faultOf(call: Promise<unknown>, uri: string): Promise<string> {
  const error = await call.then(
    () => "it was answered",
    (fault: unknown) => fault as Error & { code?: unknown; data?: unknown },
  );
  if (typeof error === "string") return error;
  const { message, code, data } = error;
  return JSON.stringify({ message, code, data }).replaceAll(uri, "<uri>");
}

async function get(url: string, claims: JWTPayload, faults?: TokenFaults): Promise<RawAnswer> {
  const authorization = `Bearer ${await server.issuer.sign(claims, faults)}`;
  return send("GET", url, { headers: { authorization } });
}

const revisions = ["modern", "legacy"] as const;

test.each(revisions)(
  "%s: the principal investigator lists and streams its trial, and no other one [ARTICLE/8/roles]",
  async (revision) => {
    const { client, list, stream } = await connect(revision, investigator);
    expect(await list()).toEqual([genomics]);
    const { bytes } = await stream(genomics);
    expect(bytes.equals(content)).toBe(true);
    for (const use of [
      (uri: string) => client.readResource({ uri }),
      (uri: string) => streamResource(client, uri),
    ])
      expect(await faultOf(use(vitals), vitals)).toBe(await faultOf(use(missing), missing));
  },
);

test.each(revisions)(
  "%s: for another role the trial does not exist: hidden, not denied",
  async (revision) => {
    for (const claims of [nurse, { ...nurse, role: ["PI"] }, { sub: "dan" }]) {
      const { client, list } = await connect(revision, claims);
      expect(await list()).toEqual([]);
      for (const use of [
        (uri: string) => client.readResource({ uri }),
        (uri: string) => streamResource(client, uri),
      ]) {
        const hidden = await faultOf(use(genomics), genomics);
        expect(hidden).toBe(await faultOf(use(missing), missing));
        expect(hidden).not.toContain("answered");
      }
    }
  },
);

test.each<[string, TokenFaults]>([
  ["expired", { lifeS: -60 }],
  ["of another audience", { audience: "https://other.example/mcp" }],
  ["of another issuer", { issuer: "https://other.example" }],
  ["of another kind", { type: "JWT" }],
  ["signed by another key", { foreignKey: true }],
])("a token that is %s is 401 everywhere, also for a download URL", async (_what, faults) => {
  const token = await server.issuer.sign(investigator, faults);
  const { status, headers } = await callRaw(server.endpoint, "resources/list", {}, { token });
  expect([status, headers["www-authenticate"]]).toEqual([401, expect.stringMatching(/^Bearer /)]);
  const { stream } = await connect("modern", investigator);
  const { url } = await stream(genomics);
  expect((await get(url, investigator, faults)).status).toBe(401);
  expect((await send("GET", url)).status).toBe(401);
  expect((await get(url, investigator)).status).toBe(200);
});

test.each(revisions)("%s: a download URL is of no use to another user", async (revision) => {
  const { stream } = await connect(revision, investigator);
  const { url } = await stream(genomics);
  // not even to one who may stream the same trial
  for (const claims of [nurse, otherInvestigator, { ...investigator, sub: "eve" }])
    expect((await get(url, claims)).status).toBe(404);
  const { status, bytes } = await get(url, investigator);
  expect([status, bytes.equals(content)]).toEqual([200, true]);
});

test.each(revisions)(
  "%s: a role that a new token lacks ends access also for URLs of before, and comes back with it",
  async (revision) => {
    const { client, become, list, stream } = await connect(revision, investigator);
    const { url } = await stream(genomics);
    for (const claims of [
      { ...investigator, role: "retired" },
      { ...investigator, approved_trials: [] },
    ]) {
      await become(claims);
      expect(await list()).toEqual([]);
      expect(await faultOf(client.readResource({ uri: genomics }), genomics)).toBe(
        await faultOf(client.readResource({ uri: missing }), missing),
      );
      expect((await get(url, claims)).status).toBe(404);
    }
    await become(investigator);
    expect(await list()).toEqual([genomics]);
    expect((await get(url, investigator)).status).toBe(200);
  },
);

test(
  "a subscription of a session acts for the claims of its last request, also a refused one, and is silent without the role",
  { tags: "slow" },
  async () => {
    const open = async () => {
      const made = await connect("legacy", watcher);
      const heard: string[] = [];
      made.client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
        heard.push(params.uri);
      });
      await made.client.subscribeResource({ uri: watched });
      return { ...made, heard };
    };
    const [left, stayed] = [await open(), await open()];
    /** Changes the file until every one of them hears of it. */
    const changed = async (...listeners: readonly { heard: string[] }[]): Promise<void> => {
      for (const { heard } of listeners) heard.length = 0;
      await vi.waitFor(
        async () => {
          await appendFile(server.pathOf(watched), "2\n");
          for (const { heard } of listeners)
            await vi.waitFor(() => expect(heard).toContain(watched), { timeout: 1_000 });
        },
        { timeout: 20_000 },
      );
    };
    await changed(left, stayed);
    await left.become({ ...watcher, role: "retired" });
    await expect(left.client.readResource({ uri: watched })).rejects.toThrow(/not found/i);
    left.heard.length = 0;
    // what the first change told would come before the second
    await changed(stayed);
    await changed(stayed);
    expect(left.heard).toEqual([]);
    await left.become(watcher);
    expect(await left.list()).toEqual([watched]);
    await changed(left, stayed);
  },
);

test("the audit trail has each access under the tag of its user, and no claim [ARTICLE/8/audit]", async () => {
  const { stream } = await connect("modern", { ...investigator, diagnosis: "C50.9" });
  await stream(genomics);
  const lines = (await readFile(server.auditFile, "utf8")).trim().split("\n");
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const text = JSON.stringify(records);
  expect(text).toContain(genomics);
  for (const claim of ["approved_trials", "C50.9", '"PI"']) expect(text).not.toContain(claim);
});

/** Everything that a caller without a verified role may try, against a server; gives what was shown of the trial. */
async function trickery(url: string): Promise<string[]> {
  const plain = await server.issuer.sign({ sub: "mallory" });
  const foreign = await server.issuer.sign(investigator, { foreignKey: true });
  const unsigned = new UnsecuredJWT({ ...investigator, client_id: "desk" })
    .setIssuer(server.issuer.issuer)
    .setAudience(url)
    .setExpirationTime("10m")
    .encode();
  const tried = {
    "headers that say a role": { token: plain, headers: { "x-role": "PI" } },
    "a token of another key": { token: foreign },
    "a token without a signature": { token: unsigned },
    "both in one": { token: foreign, headers: { "x-role": "PI" } },
  };
  const shown: string[] = [];
  for (const [name, options] of Object.entries(tried)) {
    const { message } = await callRaw(url, "resources/list", {}, options);
    if (JSON.stringify(message ?? {}).includes(genomics)) shown.push(name);
  }
  return shown;
}

/** A server over the same trial that trusts what was not verified. */
async function serveTwin(principal: SluiceOptions["principal"]): Promise<string> {
  let answer: ReturnType<typeof toNodeHandler> | undefined;
  const http = await listen(createServer((req, res) => answer?.(req, res)));
  onTestFinished(() => http.close());
  const url = `${http.origin}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({ "trial-OncoDrug-734/genomics.parquet": "genes" }),
    baseUri: "hipaa://",
    endpoint: url,
    keys: "ephemeral",
    access: (caller) => (caller?.claims?.["role"] === "PI" ? "allow" : "hide"),
    principal: principal!,
    onWarning: () => {},
  });
  const mcp = createMcpHandler(() => sluice.attach(new McpServer({ name: "t", version: "1" })));
  answer = toNodeHandler(withSluice(mcp, sluice));
  return url;
}

test(
  "claims that nothing verified show nothing; the negative controls, which believe them, show the trial",
  { tags: "slow" },
  async () => {
    expect(await trickery(server.endpoint)).toEqual([]);
    const user = { issuer: "twin", subject: "any", clientId: "" };
    const believesHeaders = await serveTwin(({ header }) => ({
      ...user,
      claims: { role: header("x-role") },
    }));
    expect(await trickery(believesHeaders)).toEqual(["headers that say a role", "both in one"]);
    const believesTokens = await serveTwin(({ header }) => ({
      ...user,
      claims: decodeJwt(header("authorization")!.slice("Bearer ".length)),
    }));
    expect(await trickery(believesTokens)).toEqual([
      "a token of another key",
      "a token without a signature",
      "both in one",
    ]);
  },
);
