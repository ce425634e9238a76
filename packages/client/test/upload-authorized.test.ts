import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createFileSender as createPortableSender } from "../src/send.ts";
import { createFileSender, type BegunFile } from "../src/send-node.ts";
import { startScriptedServer, type ScriptedServer } from "./scripted-server.ts";

const big = { blob: new Blob([randomBytes(1.25 * 2 ** 20)]), name: "big.bin" };
const uri = "mcp-file:the-file";

/** A sender for a server, and a client that authorizes as the server would. */
function setUp({ origin }: ScriptedServer, answer?: (params: unknown) => unknown) {
  const asked: unknown[] = [];
  const sender = createFileSender({
    endpoint: `${origin}/mcp`,
    onFilesRequested: () => ({ action: "cancel" }),
    token: async () => "secret",
    timeouts: { pauseScale: 0.001 },
  });
  const upload = {
    transport: "https",
    method: "POST",
    url: `${origin}/up`,
    multipart: { fileField: "file" },
    _meta: { "dev.sluice/uploads": { wire: "resumable" } },
  };
  const client = {
    async request({ params }: { params: unknown }) {
      asked.push(params);
      return answer ? answer(upload) : { file: { uri }, upload };
    },
  };
  return { sender, client, asked };
}

test("a file that the server did not ask for gets a URI; its descriptor authenticates itself", async () => {
  await using server = await startScriptedServer();
  const { sender, client, asked } = setUp(server);
  const sent = await sender.upload(client, big);
  expect(sent).toMatchObject({ uri, name: "big.bin", size: big.blob.size });
  expect(asked).toEqual([
    // a type guessed from the name is not a claim of the sender
    { name: "big.bin", size: big.blob.size },
  ]);
  for (const { headers } of server.seen) expect(headers.authorization).toBeUndefined();
});

test("a descriptor without our word is followed to the letter: field, further fields, headers", async () => {
  await using server = await startScriptedServer();
  const { sender, client } = setUp(server, (upload) => ({
    file: { uri },
    upload: {
      ...(upload as object),
      method: "PUT",
      headers: { "x-signature": "abc" },
      multipart: { fileField: "content", fields: { token: "t" } },
      _meta: {},
    },
  }));
  await sender.upload(client, { blob: new Blob(["small"]), name: "a.txt" });
  const [{ method, headers, body }] = server.seen as [(typeof server.seen)[number]];
  expect([method, headers["x-signature"]]).toEqual(["PUT", "abc"]);
  expect(body.toString()).toMatch(/name="token"\r\n\r\nt\r\n[^]*name="content"; filename="a.txt"/);
});

test("a server without room is told as such, keeps what has come, and is gone on with later", async () => {
  let isFull = true;
  await using server = await startScriptedServer((req, res, { uploads }) => {
    const held = uploads.get(req.url ?? "");
    if (req.method !== "PATCH" || !held || !isFull) return false;
    // a part fitted, and what followed did not
    const room = 600_000;
    req.on("data", (chunk: Buffer) => {
      held.bytes = Buffer.concat([held.bytes, chunk]).subarray(0, room);
    });
    req.on("end", () => res.writeHead(507, { "retry-after": "60" }).end());
    return true;
  });
  const { sender, client } = setUp(server);
  let begun: BegunFile | undefined;
  const onBegun = (now: BegunFile): void => void (begun = now);
  await expect(sender.upload(client, big, { onBegun })).rejects.toMatchObject({
    code: "no_space",
    message: expect.stringContaining("no room"),
    retryAfterMs: 60_000,
  });
  const methods = (): string[] => server.seen.map(({ method }) => method);
  // no try is lost on a disk that stays full, and nothing is cancelled; what was kept is asked for
  expect(methods()).toEqual(["POST", "PATCH", "HEAD"]);
  isFull = false;
  expect((await sender.upload(client, big, { begun: begun! })).size).toBe(big.blob.size);
  expect(methods()).toEqual(["POST", "PATCH", "HEAD", "HEAD", "PATCH"]);
  expect(server.seen.at(-1)!.headers["upload-offset"]).toBe("600000");
});

test(
  "an interrupted upload goes on later, and begins anew where the server has nothing of it",
  { tags: "slow" },
  async () => {
    let isCut = true;
    await using server = await startScriptedServer((req) => {
      if (req.method !== "PATCH" || !isCut) return false;
      req.socket.destroy();
      return true;
    });
    const { sender, client, asked } = setUp(server);
    const kept: BegunFile[] = [];
    const onBegun = (begun: BegunFile): void => void kept.push(begun);
    await expect(sender.upload(client, big, { onBegun })).rejects.toMatchObject({
      code: "interrupted",
    });
    isCut = false;
    const [begun] = kept as [BegunFile];
    expect(begun).toEqual({ uri, location: `${server.origin}/up/0`, auth: "self" });
    await expect(sender.upload(client, big, { begun })).resolves.toMatchObject({ uri });
    expect(asked).toHaveLength(1);

    const gone = { ...begun, location: `${server.origin}/up/gone` };
    await expect(sender.upload(client, big, { begun: gone })).resolves.toMatchObject({ uri });
    expect(asked).toHaveLength(2);
    const elsewhere = { ...begun, location: "https://elsewhere.example/up" };
    await expect(sender.upload(client, big, { begun: elsewhere })).rejects.toMatchObject({
      code: "untrusted",
    });
  },
);

test.each([
  [{ code: -32602, data: { reason: "maxSizeExceeded" } }, "too_large"],
  [{ code: -32602, data: { reason: "mimeTypeNotAccepted" } }, "unsupported"],
  [{ code: -32602, data: { reason: "toString" } }, "protocol"],
  [{ code: -32601 }, "unsupported"],
  [{ code: "REQUEST_TIMEOUT" }, "REQUEST_TIMEOUT"],
])("a refusal %j is %s", async (refusal, code) => {
  await using server = await startScriptedServer();
  const { sender, client } = setUp(server, () => {
    throw Object.assign(new Error("words of the server"), refusal);
  });
  await expect(sender.upload(client, big)).rejects.toMatchObject({ code });
  expect(server.seen).toEqual([]);
});

test.each([
  ["malformed", () => ({ file: {}, upload: {} }), "protocol"],
  ["none", () => undefined, "protocol"],
  [
    "elsewhere",
    (upload: unknown) => ({
      file: { uri },
      upload: { ...(upload as object), url: "https://elsewhere.example/up" },
    }),
    "untrusted",
  ],
] as const)("an answer that is %s is refused before anything is sent", async (_, answer, code) => {
  await using server = await startScriptedServer();
  const { sender, client } = setUp(server, answer);
  await expect(sender.upload(client, big)).rejects.toMatchObject({ code });
  expect(server.seen).toEqual([]);
});

test.each([
  ["a path", "report.pdf"],
  ["a path with a name", { path: "report.pdf", name: "a.pdf" }],
])("%s is unsupported in portable code, before the server is asked", async (_, picked) => {
  await using server = await startScriptedServer();
  const { client, asked } = setUp(server);
  const sender = createPortableSender({
    endpoint: `${server.origin}/mcp`,
    onFilesRequested: () => ({ action: "cancel" }),
  });
  await expect(sender.upload(client, picked)).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("a file by its path needs Node or Bun"),
  });
  expect(asked).toEqual([]);
});
