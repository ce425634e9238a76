import { Client } from "@modelcontextprotocol/client";
import type { McpServer } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import type { StorageBackend } from "@sluice/storage";
import { wrapBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { z } from "zod";
import { uploadIdInput, type Uploads } from "../src/index.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { startUploadServer, type UploadServer } from "./upload-server.ts";

// What goes wrong inside a server must not reach a model: the SDK sends the message of every error that a tool throws.

const secret = /redis|s3|uploads\/|10\.0\.0\.1|ENOSPC|bucket/i;
const fields = { report: { type: "file" } } as const;

/** Faults of stores and storage, in the words of their packages, and what a model reads. */
const faults: readonly (readonly [fault: unknown, words: RegExp])[] = [
  [
    new SluiceError("unavailable", "redis state store: Redis does not answer as it should", {
      retryAfterMs: 2_500,
    }),
    /Not possible at the moment: try again in 3 s$/,
  ],
  [
    new SluiceError("throttled", "redis state store: put: the bucket is full", {
      retryAfterMs: 60_000,
    }),
    /Too many requests: try again in 60 s$/,
  ],
  [
    new SluiceError("interrupted", 's3: open "uploads/1/2": the connection broke'),
    /Not possible at the moment: try again later$/,
  ],
  [new SluiceError("no_space", "s3: ENOSPC"), /The server has no room for it/],
  [
    new SluiceError("internal", "redis at 10.0.0.1"),
    /Not possible at the moment: try again later$/,
  ],
];

/** Throws what it is told to, in place of every call. */
interface Trouble {
  fault?: unknown;
}

function troubled<Target extends object>(target: Target, trouble: Trouble): Target {
  return new Proxy(target, {
    get(from, name) {
      const member: unknown = Reflect.get(from, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) =>
        trouble.fault === undefined
          ? (Reflect.apply(member, from, args) as unknown)
          : Promise.reject(trouble.fault);
    },
  });
}

function registerReader(mcp: McpServer, uploads: Uploads): void {
  const inputSchema = z.object({ upload_id: uploadIdInput() });
  mcp.registerTool("read", { inputSchema }, async ({ upload_id: uploadId }, ctx) => {
    const request = { message: "The report, please", fields, uploadId };
    const outcome = await uploads.ask(request, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    if (outcome.action !== "accept") return { content: [] };
    const { body } = await outcome.files.report.open();
    return { content: [{ type: "text", text: await new Response(body).text() }] };
  });
  uploads.attach(mcp);
}

function serve(site: UploadServer): typeof fetch {
  return createToolServer(
    site.sluice,
    async () => ({ content: [] }),
    (mcp) => registerReader(mcp, site.uploads),
  );
}

async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const result = await client.callTool({ name, arguments: args });
  const [content] = result.content as { text: string }[];
  const data = (result.structuredContent ?? {}) as Record<string, any>;
  return { isError: result.isError === true, text: content!.text, data };
}

const put = (url: string) =>
  fetch(url, { method: "PUT", body: "a report", headers: { "content-type": "text/plain" } });

test.each(eras)("%s: names a fault of the state store in words for a model", async (era) => {
  const trouble: Trouble = {};
  const state: StateStore = troubled(createMemoryStateStore(), trouble);
  const site = await startUploadServer({ sluice: { stores: { ...createMemoryStores(), state } } });
  const client = await connectAnswerer({
    era,
    fetch: serve(site),
    capabilities: {},
    token: "alice",
  });
  const { data } = await call(client, "read");
  for (const [fault, words] of faults)
    for (const [name, args] of [
      ["read", {}],
      ["read", { upload_id: data["upload_id"] }],
      ["request_upload", {}],
      ["check_upload", { upload_id: data["upload_id"] }],
    ] as const) {
      trouble.fault = fault;
      const { isError, text } = await call(client, name, args);
      delete trouble.fault;
      expect({ name, isError, text }).toEqual({
        name,
        isError: true,
        text: expect.stringMatching(words),
      });
      expect(text).not.toMatch(secret);
    }
});

test.each(["open", "body"])(
  "names a fault of storage in the %s of a file in words for a model",
  async (place) => {
    const trouble: Trouble = {};
    const breaking = (backend: StorageBackend): StorageBackend =>
      wrapBackend(backend, {
        open: (inner) => async (key, options) => {
          if (place === "open" && trouble.fault !== undefined) throw trouble.fault;
          const opened = await inner(key, options);
          if (trouble.fault === undefined) return opened;
          await opened.file?.close();
          const { info } = opened;
          return { info, body: new ReadableStream({ pull: (to) => to.error(trouble.fault) }) };
        },
      });
    const site = await startUploadServer({ kind: breaking });
    const client = await connectAnswerer({
      era: "modern",
      fetch: serve(site),
      capabilities: {},
      token: "alice",
    });
    for (const [fault, words] of faults) {
      // a storage that is busy is waited for
      if ((fault as SluiceError).retryAfterMs !== undefined) continue;
      const { data } = await call(client, "read");
      expect((await put(data["upload_url"])).status).toBe(201);
      trouble.fault = fault;
      const { text } = await call(client, "read", { upload_id: data["upload_id"] });
      delete trouble.fault;
      expect(text).toMatch(words);
      expect(text).not.toMatch(secret);
    }
  },
);

test("reports faults to the operator, with their causes", async () => {
  const trouble: Trouble = {};
  const state = troubled(createMemoryStateStore(), trouble);
  const site = await startUploadServer({ sluice: { stores: { ...createMemoryStores(), state } } });
  const client = await connectAnswerer({
    era: "modern",
    fetch: serve(site),
    capabilities: {},
    token: "alice",
  });
  const fault = new SluiceError("internal", "redis at 10.0.0.1");
  trouble.fault = fault;
  await call(client, "read");
  expect(site.errors).toContain(fault);
});

test.each([
  ["no_space", /has no room for the file; its operator must make some/],
  ["too_large", /larger than the server takes/],
  ["unsupported", /of a type that is not accepted/],
  ["corrupt", /did not arrive as it was sent/],
  ["invalid_argument", /a required file or value is missing/],
  ["constructor", /did not bring the file, or could not ask the user/],
  [undefined, /did not bring the file, or could not ask the user/],
])("legacy: names the reason %s of a client that brings no file", async (reason, words) => {
  const site = await startUploadServer();
  const failure = Object.assign(new Error("/home/ada/report.pdf"), { data: { reason } });
  const client = await connectAnswerer({
    era: "legacy",
    fetch: serve(site),
    token: "alice",
    answer: () => Promise.reject(failure),
  });
  const { isError, text } = await call(client, "read");
  expect([isError, text]).toEqual([true, expect.stringMatching(words)]);
  expect(text).not.toContain("/home/ada");
});

test("negative control: an error that a tool throws itself goes out in its own words", async () => {
  const site = await startUploadServer();
  const fetch = createToolServer(site.sluice, () => Promise.reject(faults[2]![0]));
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  expect((await call(client, "look")).text).toMatch(secret);
});
