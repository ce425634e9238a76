// The commands in front of servers that are not ours: a line each.
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  error,
  startFieldPeer,
  type Oddity,
  type PeerRequest,
} from "../../bridge/test/field-peer.ts";
import { headersFrom, joinHeaders } from "../src/server-calls/headers.ts";
import { runHere } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

const json = { "content-type": "application/json" };
const events = { "content-type": "text/event-stream" };

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-field-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** Answers one method, by its id. */
function answering(method: string, answer: (id: unknown) => object | string): Oddity {
  return (request, response) => {
    if (request.method !== method) return undefined;
    const text = answer(request.id);
    return response
      .writeHead(200, json)
      .end(
        typeof text === "string"
          ? text
          : JSON.stringify({ jsonrpc: "2.0", id: request.id, ...text }),
      );
  };
}

type Answer = Parameters<Oddity>[1];

/** What servers answer to `server/discover`, which they do not know. */
const undiscovered: Readonly<Record<string, (response: Answer, request: PeerRequest) => unknown>> =
  {
    "500": (response) => response.writeHead(500).end("Internal Server Error"),
    "502": (response) => response.writeHead(502).end("Bad Gateway"),
    "202": (response) => response.writeHead(202).end(),
    "204": (response) => response.writeHead(204).end(),
    "400": (response) => response.writeHead(400).end("Bad Request"),
    "404": (response) => response.writeHead(404).end("Not Found"),
    "a page": (response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>"),
    silence: () => true,
    "a silent stream": (response) => response.writeHead(200, events).write(": open\n\n"),
    "an empty stream": (response) => response.writeHead(200, events).end(),
    "a reset": (response) => response.destroy(),
    "an error": (response, { id }) => response.writeHead(200, json).end(error(id, -32_601, "x")),
    "an error of the server": (response, { id }) =>
      response.writeHead(200, json).end(error(id, -32_603, "x")),
    "an error whose id is null": (response) =>
      response.writeHead(200, json).end(error(null, -32_601, "x")),
    "an error without an id": (response) =>
      response.writeHead(200, json).end('{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}'),
  };

/** Those after which the commands wait until their limit of time. */
const silent = new Set([
  "202",
  "silence",
  "a silent stream",
  "an empty stream",
  "an error without an id",
]);

describe.each(Object.entries(undiscovered))("after %s to server/discover", (name, answer) => {
  const tags = silent.has(name) ? ["slow"] : [];
  test("ls and get go on with initialize", { tags }, async () => {
    const peer = await startFieldPeer((request, response) =>
      request.method === "server/discover" ? answer(response, request) : undefined,
    );
    const run = await runHere(["ls", peer.url.href]);
    expect(run).toMatchObject({ status: 0, stdout: "field://a/a.txt\n" });
    const got = await runHere(["get", peer.url.href, "field://a/a.txt"], { cwd: folder });
    expect(got).toMatchObject({ status: 0, stdout: "a.txt\n" });
    expect(await readFile(join(folder, "a.txt"), "utf8")).toBe("content");
    // what it does not declare it is not asked for
    expect(peer.methods).not.toContain("resources/stream");
  });
});

test("a server that requires a token is not asked twice", async () => {
  const peer = await startFieldPeer((_request, response) => response.writeHead(401).end());
  const run = await runHere(["ls", peer.url.href]);
  expect(run.stderr).toContain("requires a valid token");
  expect(peer.methods).toHaveLength(1);
});

const entry = { uri: "field://a/a.txt", name: "a" };

/** Lists as servers write them. */
const lists: Readonly<Record<string, object>> = {
  "nextCursor null": { resources: [entry], nextCursor: null },
  "an empty nextCursor": { resources: [entry], nextCursor: "" },
  "members of null": {
    resources: [{ ...entry, mimeType: null, size: null, description: null, annotations: null }],
  },
  "no nextCursor": { resources: [entry] },
};

test.each(Object.entries(lists))("a list with %s has one page", async (_, result) => {
  const peer = await startFieldPeer(answering("resources/list", () => ({ result })));
  const run = await runHere(["ls", peer.url.href]);
  expect(run).toMatchObject({ status: 0, stdout: "field://a/a.txt\n" });
  expect(peer.methods.filter((method) => method === "resources/list")).toHaveLength(1);
});

const bytes = Buffer.from(Array.from({ length: 301 }, (_, at) => (at * 7) % 256));
const base64 = bytes.toString("base64");
const contentOf = (content: object) => ({
  result: { contents: [{ uri: "field://a/b.bin", ...content }] },
});

/** Base64 as programs write it. */
const blobs: Readonly<Record<string, string>> = {
  "in lines": base64.replaceAll(/.{76}/g, "$&\n"),
  "in lines of MIME": base64.replaceAll(/.{60}/g, "$&\r\n"),
  "without padding": base64.replace(/=+$/, ""),
  "with the digits of URLs": bytes.toString("base64url"),
  "in a data: URL": `data:image/png;base64,${base64}`,
};

test.each(Object.entries(blobs))("a blob of base64 %s is saved as its bytes", async (_, blob) => {
  const peer = await startFieldPeer(
    answering("resources/read", () => contentOf({ blob, text: null })),
  );
  const run = await runHere(["get", peer.url.href, "field://a/b.bin"], { cwd: folder });
  expect(run.stderr).toContain(createHash("sha256").update(bytes).digest("hex"));
  expect((await readFile(join(folder, "b.bin"))).equals(bytes)).toBe(true);
});

/** What a server answers to `resources/read`, and the words for it. */
const failures: Readonly<Record<string, readonly [answer: object, words: RegExp]>> = {
  "-32603": [
    { error: { code: -32_603, message: "the disk is gone" } },
    /answered: the disk is gone/,
  ],
  "-32601": [{ error: { code: -32_601, message: "x" } }, /does not know resources\/read/],
  "another resource": [
    { result: { contents: [{ uri: "field://z", text: "a" }] } },
    /not only with/,
  ],
  "what is not base64": [contentOf({ blob: "abc?" }), /malformed base64/],
};

test.each(Object.entries(failures))(
  "a server that answers resources/read with %s has failed",
  async (_, [answer, words]) => {
    const peer = await startFieldPeer(answering("resources/read", () => answer));
    const run = await runHere(["get", peer.url.href, "field://a/b.bin"], { cwd: folder });
    expect(run.stderr).toMatch(words);
    expect(run.status).not.toBe(0);
    expect(await readdir(folder)).toEqual([]);
  },
);

test("a header takes variables from the environment, and its value is told by no error", () => {
  const env = { TOKEN: "t0ken", EMPTY: "", LINES: "a\nb" };
  expect(
    headersFrom(
      [
        "Authorization: Bearer ${TOKEN}",
        "X-A: ${env:TOKEN}-${NONE:-other}${EMPTY:-}",
        "X-B: $TOKEN {TOKEN}",
      ],
      env,
    ),
  ).toEqual({ Authorization: "Bearer t0ken", "X-A": "t0ken-other", "X-B": "$TOKEN {TOKEN}" });
  for (const [line, words] of [
    ["X: secret ${NONE}", "NONE, which is not set"],
    ["X: secret ${EMPTY}", "EMPTY, which is not set"],
    ["X: secret ${LINES}", "several lines"],
    ["no colon secret", "malformed"],
  ] as const) {
    const call = (): unknown => headersFrom([line], env);
    const refusal = expect.objectContaining({ message: expect.stringContaining(words) });
    expect(call).toThrow(expect.objectContaining({ cause: refusal }));
    const spoken = expect.objectContaining({ message: expect.stringContaining("secret") });
    expect(call).not.toThrow(expect.objectContaining({ cause: spoken }));
  }
});

const url = "https://mcp.example.com/mcp";

test.each([
  [
    ["--header", "Authorization:", "Bearer", "t", url],
    ["--header", "Authorization: Bearer t", url],
  ],
  [
    [url, "--header", "Authorization:", "Bearer t"],
    [url, "--header", "Authorization: Bearer t"],
  ],
  [
    ["--header=X:", "a", "--http", url],
    ["--header=X: a", "--http", url],
  ],
  [
    ["--header", "X:", "a", "--header", "Y:", "b", url],
    ["--header", "X: a", "--header", "Y: b", url],
  ],
  [
    ["--header", "X: a", url],
    ["--header", "X: a", url],
  ],
  [
    ["--header", "X:a", "b", url],
    ["--header", "X:a", "b", url],
  ],
  [
    ["--header", "X:", url],
    ["--header", "X:", url],
  ],
  [
    ["--header", "X:", "--", "npx"],
    ["--header", "X:", "--", "npx"],
  ],
  [
    ["--", "curl", "--header", "X:", "a"],
    ["--", "curl", "--header", "X:", "a"],
  ],
])("arguments %j are read as %j", (given, read) => {
  expect(joinHeaders(["bridge", ...given])).toEqual(["bridge", ...read]);
});
