import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listenWebSocket } from "@sluice/transport-ws";
import { createUploads, type Uploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listen } from "../../bed/listen.ts";
import { startSite } from "../../bed/site.ts";
import { connectSocket } from "../base/channel-client.ts";
import { connectHttp, type Peer } from "../base/http-client.ts";
import { revisions, type Message, type Revision } from "../base/message.ts";
import { startDemo } from "../servers.ts";
import { callWithFiles, type Picked } from "./client.ts";
import { accepted, clientCapabilities, part, request } from "./examples.ts";

/** A PNG of one pixel. */
const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const picture: Picked = { name: "sunset.png", type: "image/png", bytes: png };
const notes = ["first", "second"].map((text): Picked => {
  return { name: `${text}.txt`, type: "text/plain", bytes: Buffer.from(`${text} note`) };
});

/** Tools that ask for what the examples of the text ask for. */
function registerTools(mcp: McpServer, uploads: Uploads): void {
  const { imageFile, description } = request.requestedSchema.properties;
  const { accept, maxSize } = imageFile;
  mcp.registerTool("analyze", {}, async (ctx) => {
    const fields = {
      imageFile: { type: "file", title: imageFile.title, accept, maxBytes: maxSize },
      description: { type: "string", title: description.title, maxLength: description.maxLength },
    } as const;
    const outcome = await uploads.ask({ message: request.message, fields }, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    if (outcome.action !== "accept") return { content: [{ type: "text", text: outcome.action }] };
    const { name, size, mimeType } = outcome.files.imageFile;
    return {
      content: [
        { type: "text", text: `${name} ${size} ${mimeType}: ${outcome.values.description}` },
      ],
    };
  });
  mcp.registerTool("collect", {}, async (ctx) => {
    const fields = { documents: { type: "file", multiple: true } } as const;
    const outcome = await uploads.ask({ message: "Documents", fields }, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    if (outcome.action !== "accept") return { content: [{ type: "text", text: outcome.action }] };
    const names = outcome.files.documents.map(({ name, size }) => `${name} ${size}`);
    return { content: [{ type: "text", text: names.join(", ") }] };
  });
}

interface AskingServer extends AsyncDisposable {
  connect(revision: Revision): Promise<Peer>;
}

async function startHttp(users: boolean): Promise<AskingServer> {
  const site = await startSite({
    sessions: true,
    asking: registerTools,
    ...(users && { accounts: { "ann-token": { subject: "ann" } } }),
  });
  return {
    connect: (revision) =>
      connectHttp(site.url, {
        revision,
        capabilities: clientCapabilities,
        token: users ? "ann-token" : undefined,
      }),
    [Symbol.asyncDispose]: () => site[Symbol.asyncDispose](),
  };
}

/** Messages over WebSocket, files to a listener beside it. */
async function startSocket(): Promise<AskingServer> {
  const http = createServer();
  const listening = await listen(http);
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://site/",
    endpoint: `${listening.origin}/bytes`,
    keys: [generateKey()],
    principal: ({ authInfo }) =>
      authInfo && { issuer: "i", subject: String(authInfo.extra?.["subject"]), clientId: "c" },
  });
  const uploads = createUploads(sluice, { storage: createMemoryBackend(), scan: "none" });
  const infoOf = (token: string) => {
    const expiresAt = Math.floor(Date.now() / 1_000) + 3_600;
    return { token, clientId: "test", scopes: [], expiresAt, extra: { subject: token } };
  };
  const handle = toNodeHandler(withUploads(createSidecar(sluice), uploads));
  http.on("request", (message, response) => {
    const token = /^Bearer (.+)$/.exec(message.headers.authorization ?? "")?.[1];
    handle(token ? Object.assign(message, { auth: infoOf(token) }) : message, response);
  });
  const sockets = await listenWebSocket(
    () => {
      const mcp = new McpServer({ name: "site", version: "1.0.0" });
      registerTools(mcp, uploads);
      return sluice.attach(mcp);
    },
    { bearer: { verifier: { verifyAccessToken: async (token) => infoOf(token) } } },
  );
  return {
    connect: (revision) =>
      connectSocket(sockets.url, { revision, capabilities: clientCapabilities, token: "ann" }),
    async [Symbol.asyncDispose]() {
      await sockets.close({ deadlineMs: 0 });
      await uploads.close();
      await listening.close();
    },
  };
}

const servers: readonly { readonly name: string; readonly start: () => Promise<AskingServer> }[] = [
  { name: "a server of users", start: () => startHttp(true) },
  { name: "a server of the anonymous", start: () => startHttp(false) },
  { name: "a server over WebSocket", start: startSocket },
];

const textOf = ({ result, error }: Message): string =>
  error ? `${error.code} ${error.message}` : (result!["content"] as { text: string }[])[0]!.text;

describe.each(servers)("$name", ({ start }) => {
  let server: AskingServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  describe.each(revisions)("%s", (revision) => {
    test("takes the file of a client of the text, in a form that is named as the text names it", async () => {
      await using peer = await server.connect(revision);
      const message = await callWithFiles(peer, "analyze", {
        files: { imageFile: [picture] },
        values: { description: accepted.content.description },
      });
      expect([textOf(message), part.field]).toEqual([
        `sunset.png ${png.length} image/png: A beautiful sunset over the ocean`,
        "file",
      ]);
    });

    test("takes several files of one field in one form", async () => {
      await using peer = await server.connect(revision);
      const message = await callWithFiles(peer, "collect", { files: { documents: notes } });
      expect(textOf(message)).toBe("first.txt 10, second.txt 11");
    });

    test("hears that the user declined", async () => {
      await using peer = await server.connect(revision);
      expect(textOf(await callWithFiles(peer, "analyze"))).toBe("decline");
    });

    // a client that says what it did not do is no client of the text
    test("believes no answer that names another file than came", async () => {
      await using peer = await server.connect(revision);
      const liar: Peer = Object.create(peer, {
        call: {
          value: (
            method: string,
            params: object,
            answering?: (m: string, p: object) => Promise<object>,
          ) => peer.call(method, lie(params), async (m, p) => lie(await answering!(m, p))),
        },
      }) as Peer;
      const message = await callWithFiles(liar, "analyze", { files: { imageFile: [picture] } });
      expect(textOf(message)).not.toContain("sunset.png");
    });
  });
});

/** The same with other sizes. */
function lie<Value extends object>(value: Value): Value & Record<string, unknown> {
  const text = JSON.stringify(value).replace(`"size":${png.length}`, `"size":${png.length + 1}`);
  return JSON.parse(text) as Value & Record<string, unknown>;
}

describe.each(revisions)("the demo server, %s", (revision) => {
  test("describes the picture that a client of the text sends", { tags: "slow" }, async () => {
    await using server = await startDemo();
    await using peer = await connectHttp(server.url, {
      revision,
      capabilities: clientCapabilities,
    });
    const message = await callWithFiles(peer, "describe_picture", {
      files: { picture: [picture] },
    });
    expect(textOf(message)).toContain("sunset.png: 1 × 1");
  });
});
