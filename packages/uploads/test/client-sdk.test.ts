import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { inputRequired, type McpServer, type ServerContext } from "@modelcontextprotocol/server";
import {
  createFileSender,
  type FileSenderOptions,
  type NamedBlob,
  type PickedPath,
} from "@sluice/client/send";
import { revisionOf } from "@sluice/server/internal";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { createFileSender as createPortable } from "../../client/src/send.ts";
import { createPlainSluice, createToolServer } from "./asking.ts";
import { startScriptedServer, type Script } from "../../client/test/scripted-server.ts";

type Options = FileSenderOptions<string | PickedPath | NamedBlob>;
const image = { blob: new Blob(["an image"]), name: "sunset.png" };
const large = { blob: new Blob([Buffer.alloc(2 ** 21, "x")]), name: "large.png" };

/** Where files go: a client that writes the URL anew writes another one. */
const path = "/up/%7Ea%2Fb;c?d=%20&e=+";

/**
 * A question in the words of SEP-1306, for files that go to `origin`. `isLiteral`: of a server that knows
 * nothing beyond its text.
 */
function question(
  origin: string,
  more: { progressToken?: string; multiple?: boolean; isLiteral?: boolean } = {},
) {
  const { progressToken, multiple = false, isLiteral = false } = more;
  const _meta = { "dev.sluice/uploads": { wire: "resumable" } };
  return {
    mode: "binary",
    message: "Please upload an image for analysis",
    requestedSchema: {
      type: "object",
      properties: {
        imageFile: {
          type: "file",
          title: "Image",
          accept: ["image/*"],
          maxSize: 5_242_880,
          multiple,
        },
        description: { type: "string", maxLength: 500 },
      },
      required: ["imageFile"],
    },
    uploadEndpoints: {
      imageFile: {
        url: `${origin}${path}`,
        method: "POST",
        uploadId: "the-upload",
        ...(!isLiteral && { _meta }),
      },
    },
    ...(progressToken !== undefined && { _meta: { progressToken } }),
  };
}

const loose = z.looseObject({});

/** Asks in the way of the era; gives the bare answer once there is one. */
async function ask(mcp: McpServer, ctx: ServerContext, params: object) {
  if (revisionOf(mcp) === "legacy")
    return ctx.mcpReq.send({ method: "elicitation/create", params } as never, loose);
  const answer = ctx.mcpReq.inputResponses?.["k"];
  if (answer) return answer;
  // what the SDK's types do not know
  const request = { method: "elicitation/create", params } as never;
  return inputRequired({ inputRequests: { k: request } });
}

/** A server with one tool that asks, and where the files go. */
async function setUp(asked: (origin: string) => object, script?: Script) {
  const uploads = await startScriptedServer(script);
  onTestFinished(() => uploads[Symbol.asyncDispose]());
  const progress = vi.fn<(params: { progress: number }) => void>();
  const fetch = createToolServer(
    createPlainSluice(),
    async (mcp, ctx) => {
      const caps = ctx.mcpReq.envelope as Record<string, any> | undefined;
      const declared = caps?.["io.modelcontextprotocol/clientCapabilities"];
      // the SDK refuses modes that it does not know unless `form` is declared
      if (declared?.elicitation) declared.elicitation.form ??= {};
      const answer = await ask(mcp, ctx, asked(uploads.origin));
      if (Object.hasOwn(answer, "inputRequests")) return answer as never;
      return { content: [{ type: "text", text: JSON.stringify(answer) }] };
    },
    (mcp) => {
      mcp.server.setNotificationHandler("notifications/progress", ({ params }) => progress(params));
    },
  );
  return { uploads, fetch, progress, endpoint: `${uploads.origin}/mcp` };
}

type SetUp = Awaited<ReturnType<typeof setUp>>;
type Connected = Pick<Client, "callTool" | "close">;

const headers = { authorization: "Bearer secret" };
const requestInit = { headers };

function optionsOf({ endpoint }: SetUp, options: Partial<Options>): Options {
  return { endpoint, onFilesRequested: () => ({ action: "cancel" }), ...options };
}

async function connectV2(
  served: SetUp,
  options: Partial<Options>,
  mode: "legacy" | "auto",
): Promise<Connected> {
  const files = createFileSender(optionsOf(served, options));
  const client = new (files.extend(Client))(
    { name: "test", version: "1" },
    { versionNegotiation: { mode } },
  );
  const transport = new StreamableHTTPClientTransport(new URL(served.endpoint), {
    fetch: files.fetch(served.fetch),
    requestInit,
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return client;
}

const clients: Record<string, (served: SetUp, options: Partial<Options>) => Promise<Connected>> = {
  "SDK version 2, modern era": (served, options) => connectV2(served, options, "auto"),
  "SDK version 2, legacy era": (served, options) => connectV2(served, options, "legacy"),
  async "SDK version 1"(served, options) {
    const files = createFileSender(optionsOf(served, options));
    const client = new ClientV1({ name: "test", version: "1" });
    files.attach(client);
    const transport = new TransportV1(new URL(served.endpoint), {
      fetch: files.fetch(served.fetch),
      requestInit,
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return client as unknown as Connected;
  },
};

async function look(client: Connected): Promise<any> {
  const result = await client.callTool({ name: "look", arguments: {} });
  const [{ text }] = result.content as unknown as [{ text: string }];
  return result.isError ? text : JSON.parse(text);
}

describe.each(Object.entries(clients))("%s", (name, connect) => {
  test("a picked file is sent with the session's credentials, and the answer names it [SEP-1306/5.upload/must-exact-url] [SEP-1306/3.response/accept] [SEP-1306/privacy/must-inform]", async () => {
    const served = await setUp((origin) => question(origin));
    const onFilesRequested = vi.fn<Options["onFilesRequested"]>(() => {
      expect(served.uploads.seen).toEqual([]);
      return {
        action: "accept",
        files: { imageFile: [image] },
        values: { description: "the sea" },
      };
    });
    const client = await connect(served, { onFilesRequested });
    expect(await look(client)).toEqual({
      action: "accept",
      content: {
        imageFile: {
          name: "sunset.png",
          size: 8,
          mimeType: "image/png",
          uploadId: "the-upload",
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        },
        description: "the sea",
      },
    });
    const [request] = onFilesRequested.mock.calls[0]!;
    expect(request).toMatchObject({
      message: "Please upload an image for analysis",
      origin: served.uploads.origin,
      fields: [
        {
          name: "imageFile",
          title: "Image",
          accept: ["image/*"],
          maxBytes: 5_242_880,
          maxFiles: 1,
          required: true,
          destination: served.uploads.origin,
        },
      ],
      values: { description: { type: "string" } },
    });
    const [sent] = served.uploads.seen;
    expect(sent?.path).toBe(path);
    expect(sent?.headers.authorization).toBe("Bearer secret");
    expect(sent?.body.toString()).toBe("an image");
  });

  test("a server that knows the text of SEP-1306 alone gets one form with a field for each file [SEP-1306/5.upload/must-exact-url] [SEP-1306/5.upload/must-authorize] [SEP-1306/5.upload/must-multipart] [SEP-1306/5.upload/must-field-name] [SEP-1306/5.upload/must-file-name] [SEP-1306/5.upload/must-content-type] [SEP-1306/5.upload/should-one-field-each] [SEP-1306/3.response/multiple]", async () => {
    const served = await setUp((origin) => question(origin, { multiple: true, isLiteral: true }));
    const other = { blob: new Blob(["another"]), name: "dawn.webp", mimeType: "image/webp" };
    const client = await connect(served, {
      onFilesRequested: () => ({ action: "accept", files: { imageFile: [image, other] } }),
    });
    expect((await look(client)).content.imageFile).toMatchObject([
      { name: "sunset.png", size: 8, mimeType: "image/png", uploadId: "the-upload" },
      { name: "dawn.webp", size: 7, mimeType: "image/webp", uploadId: "the-upload" },
    ]);
    const [sent, ...more] = served.uploads.seen;
    expect(more).toEqual([]);
    expect(sent).toMatchObject({
      method: "POST",
      path,
      headers: { authorization: "Bearer secret" },
    });
    const boundary = /^multipart\/form-data; boundary=(\S+)$/.exec(
      sent!.headers["content-type"]!,
    )![1];
    const partOf = (file: string, type: string, text: string): string =>
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${file}"\r\nContent-Type: ${type}\r\n\r\n${text}\r\n`;
    expect(sent!.body.toString()).toBe(
      `${partOf("sunset.png", "image/png", "an image")}${partOf("dawn.webp", "image/webp", "another")}--${boundary}--\r\n`,
    );
  });

  test.each(["decline", "cancel"] as const)(
    "%s is answered, and nothing is sent [SEP-1306/3.response/decline-cancel]",
    async (action) => {
      const served = await setUp((origin) => question(origin));
      const client = await connect(served, { onFilesRequested: () => ({ action }) });
      expect(await look(client)).toEqual({ action });
      expect(served.uploads.seen).toEqual([]);
    },
  );

  test("addresses elsewhere are refused before the user is asked", async () => {
    const served = await setUp(() => question("https://elsewhere.example"));
    const onFilesRequested = vi.fn<Options["onFilesRequested"]>();
    const client = await connect(served, { onFilesRequested });
    const outcome = await look(client).catch((error: Error) => error.message);
    expect(String(outcome)).toContain("not the MCP server's origin");
    expect(onFilesRequested).not.toHaveBeenCalled();
  });

  test.each([
    ["too many", [image, image], /one file only/],
    ["none", [], /needs a file/],
    ["another type", [{ blob: new Blob(["x"]), name: "secret-name.txt" }], /another type/],
    ["too large", [{ blob: new Blob([Buffer.alloc(6_000_000)]), name: "a.png" }], /5242880 bytes/],
  ])(
    "a file that does not fit the request is not sent: %s [SEP-1306/6.validation/must-reject-size] [SEP-1306/6.validation/should-filter-type] [SEP-1306/6.validation/must-take-one]",
    async (_, files, why) => {
      const served = await setUp((origin) => question(origin));
      const client = await connect(served, {
        onFilesRequested: () => ({ action: "accept", files: { imageFile: files } }),
      });
      const outcome = String(await look(client).catch((error: Error) => error.message));
      expect(outcome).toMatch(why);
      expect(outcome).not.toContain("secret-name");
      expect(served.uploads.seen).toEqual([]);
    },
  );

  test.each([
    [415, "it takes image/*"],
    [413, "it takes at most 5242880 bytes"],
  ])(
    "a file that the server refuses with %i is an error with its field and what that takes, without the server's words",
    async (status, terms) => {
      const served = await setUp(
        (origin) => question(origin),
        (req, res) => {
          req.resume().on("end", () => res.writeHead(status).end('{"detail":"obey the server"}'));
          return true;
        },
      );
      const client = await connect(served, {
        onFilesRequested: () => ({ action: "accept", files: { imageFile: [image] } }),
      });
      const outcome = String(await look(client).catch((error: Error) => error.message));
      expect(outcome).toContain('field "imageFile"');
      expect(outcome).toContain(terms);
      expect(outcome).not.toContain("obey");
    },
  );

  test("a file above what the client takes is not sent, whatever the server would take [SEP-1306/6.validation/must-reject-size]", async () => {
    const served = await setUp((origin) => question(origin));
    const client = await connect(served, {
      maxFileBytes: 7,
      onFilesRequested: () => ({ action: "accept", files: { imageFile: [image] } }),
    });
    const outcome = String(await look(client).catch((error: Error) => error.message));
    expect(outcome).toMatch(/more than 7 bytes/);
    expect(served.uploads.seen).toEqual([]);
  });

  test("progress is reported to the caller that asked for it, and grows [SEP-1306/5.progress/may-notify]", async () => {
    const served = await setUp((origin) =>
      question(origin, { progressToken: "token", multiple: true }),
    );
    const onProgress = vi.fn<NonNullable<Options["onProgress"]>>();
    const client = await connect(served, {
      onProgress,
      onFilesRequested: () => ({ action: "accept", files: { imageFile: [large, image] } }),
    });
    const { content } = await look(client);
    expect(content.imageFile).toHaveLength(2);
    const total = 2 ** 21 + 8;
    expect(onProgress).toHaveBeenLastCalledWith({
      bytes: total,
      totalBytes: total,
      name: "sunset.png",
    });
    // in the modern era there is no call to tell: the endpoint sees it
    const isTold = !name.endsWith("modern era");
    const last = () => served.progress.mock.lastCall?.[0];
    await expect.poll(() => last()?.progress).toBe(isTold ? total : undefined);
    const told = served.progress.mock.calls.map(([params]) => params.progress);
    expect(told).toEqual(told.toSorted((one, other) => one - other));
    expect(told.length).toBeLessThanOrEqual(101);
    const expected = {
      progressToken: "token",
      progress: total,
      total,
      message: "Uploading sunset.png",
    };
    expect(last()).toEqual(isTold ? expected : undefined);
  });

  test("invalid requests are refused before the user is asked", async () => {
    for (const broken of [
      { uploadEndpoints: {} },
      { requestedSchema: { type: "object", properties: {} } },
      {
        requestedSchema: { type: "object", properties: { imageFile: { type: "file", accept: 7 } } },
      },
      { message: 7 },
    ]) {
      const served = await setUp((origin) => ({ ...question(origin), ...broken }));
      const onFilesRequested = vi.fn<Options["onFilesRequested"]>();
      const client = await connect(served, { onFilesRequested });
      const outcome = String(await look(client).catch((error: Error) => error.message));
      expect(outcome).toMatch(/request for files/);
      expect(onFilesRequested).not.toHaveBeenCalled();
    }
  });

  test("the wait for a person ends with the call", async () => {
    const served = await setUp((origin) => question(origin));
    let signal: AbortSignal | undefined;
    const stop = new AbortController();
    const client = await connect(served, {
      onFilesRequested(_request, context) {
        ({ signal } = context);
        stop.abort(new Error("enough"));
        return new Promise(() => {});
      },
    });
    const options = { signal: stop.signal };
    const params = { name: "look", arguments: {} };
    const call = name.endsWith("version 1")
      ? (client as unknown as ClientV1).callTool(params, undefined, options)
      : client.callTool(params, options);
    await expect(call).rejects.toThrow("enough");
    await client.close();
    await expect.poll(() => signal?.aborted).toBe(true);
    expect(served.uploads.seen).toEqual([]);
  });
});

test("a client declares what it takes, beside what it declares itself, and forms still reach its own handler [SEP-1306/1.capability/must-declare] [SEP-1306/1.capability/limits]", async () => {
  const served = await setUp(() => ({
    mode: "form",
    message: "Your name?",
    requestedSchema: { type: "object", properties: { name: { type: "string" } } },
  }));
  const files = createFileSender(optionsOf(served, { maxFileBytes: 7, accept: ["image/*"] }));
  const client = new (files.extend(Client))(
    { name: "test", version: "1" },
    { capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler("elicitation/create", async () => ({
    action: "accept",
    content: { name: "Ada" },
  }));
  const bodies: string[] = [];
  await client.connect(
    new StreamableHTTPClientTransport(new URL(served.endpoint), {
      fetch: files.fetch((input, init) => {
        bodies.push(typeof init?.body === "string" ? init.body : "");
        return served.fetch(input, init);
      }),
    }),
  );
  onTestFinished(() => client.close());
  expect(await look(client)).toEqual({ action: "accept", content: { name: "Ada" } });
  const { params } = JSON.parse(bodies.find((body) => body.includes("initialize"))!);
  expect(params.capabilities.elicitation).toEqual({
    form: {},
    binary: { maxFileSize: 7, supportedMimeTypes: ["image/*"] },
  });
});

test("the portable sender takes Files", async () => {
  const served = await setUp((origin) => question(origin));
  const files = createPortable({
    endpoint: served.endpoint,
    onFilesRequested: () => ({
      action: "accept",
      files: { imageFile: [new File(["an image"], "a.png", { type: "image/png" })] },
    }),
  });
  const client = new (files.extend(Client))({ name: "test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(served.endpoint), {
    fetch: files.fetch(served.fetch),
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  expect((await look(client)).content.imageFile).toMatchObject({ name: "a.png", size: 8 });
});

test("options that cannot work are refused", () => {
  const options = {
    endpoint: "http://127.0.0.1/mcp",
    onFilesRequested: vi.fn<Options["onFilesRequested"]>(),
  };
  for (const maxFileBytes of [0, -1, 1.5, Infinity, Number.NaN])
    expect(() => createFileSender({ ...options, maxFileBytes })).toThrow(RangeError);
  for (const maxStepBytes of [65_535, 65_536.5, Infinity])
    expect(() => createFileSender({ ...options, maxStepBytes })).toThrow(
      "client: maxStepBytes must be a whole number from 65536",
    );
  expect(() => createFileSender({ ...options, endpoint: "nonsense" })).toThrow(TypeError);
});

test.for([
  ["the client of SDK version 1", ClientV1],
  ["a made client", new Client({ name: "test", version: "1" })],
  ["nothing", undefined],
])("extend of %s says what to write", ([, Base]) => {
  const files = createFileSender({
    endpoint: "https://files.example.com/mcp",
    onFilesRequested: () => ({ action: "cancel" }),
  });
  expect(() => files.extend(Base as unknown as typeof Client)).toThrow(
    new TypeError(
      "client: extend takes the Client class of SDK version 2; with version 1 call sender.attach(client) before connect",
    ),
  );
});
