import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { fileInput, hostFileInput, openAiFileMeta, type FileInputTerms } from "../src/index.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { noise, startUploadServer, type UploadServerOptions } from "./upload-server.ts";

/** Serves in this process; gives its origin. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface SetUp {
  readonly terms?: FileInputTerms;
  readonly trustedOrigins?: readonly string[];
  readonly options?: UploadServerOptions;
  readonly era?: (typeof eras)[number];
}

/** A tool that takes a file, as ChatGPT and Codex call it. */
async function start({ terms = {}, trustedOrigins = [], options, era = "legacy" }: SetUp) {
  const uploads = { trustedOrigins, ...options?.uploads };
  const server = await startUploadServer({ ...options, uploads });
  const fetch = createToolServer(
    server.sluice,
    async () => ({ content: [] }),
    (mcp) =>
      mcp.registerTool(
        "read",
        {
          inputSchema: z.object({
            file: hostFileInput().optional(),
            uri: fileInput(terms).default(""),
          }),
          _meta: openAiFileMeta(["file"]),
        },
        async ({ file, uri }, ctx) => {
          const argument = file ?? uri;
          const { name, size, mimeType } = await server.uploads.open(argument, terms, { mcp, ctx });
          return { content: [{ type: "text", text: `${name} ${size} ${mimeType}` }] };
        },
      ),
  );
  const client = await connectAnswerer({ era, fetch, capabilities: {}, token: "alice" });
  const read = async (file: object | string): Promise<string> => {
    const args = typeof file === "string" ? { uri: file } : { file };
    const { content } = await client.callTool({ name: "read", arguments: args });
    return (content as { text: string }[])[0]!.text;
  };
  return { ...server, client, read };
}

const handed = (url: string, more: object = {}) => ({
  download_url: url,
  file_id: "file-abc",
  ...more,
});

test.each(eras)("%s: a file that a host hands over is fetched and kept", async (era) => {
  const origin = await serve((_request, response) => response.end("a report"));
  const { read, files, client } = await start({ era, trustedOrigins: [origin] });
  expect(await read(handed(`${origin}/x`, { file_name: "r.txt", mime_type: "text/plain" }))).toBe(
    "r.txt 8 text/plain",
  );
  expect(await read(handed(`${origin}/notes.txt`))).toMatch(/^notes.txt 8 /);
  // null stands for what the host does not know
  const unnamed = handed(`${origin}/notes.txt`, { file_name: null, mime_type: "" });
  expect(await read(unnamed)).toMatch(/^notes.txt 8 /);
  // the other forms work beside it
  expect(await read("data:text/plain;name=a.txt,abc")).toBe("a.txt 3 text/plain");
  expect((await files()).length).toBeGreaterThan(2);
  const { tools } = await client.listTools();
  const tool = tools.find(({ name }) => name === "read");
  expect(tool?._meta).toEqual({ "openai/fileParams": ["file"] });
  expect(tool?.inputSchema.properties).toMatchObject({
    uri: { type: "string", format: "uri", "x-mcp-file": {} },
    file: { type: "object", required: ["download_url", "file_id"] },
  });
  // ChatGPT fills in these, and no file that is declared with others
  expect(Object.keys(Object(tool?.inputSchema.properties?.["file"]).properties)).toEqual([
    "download_url",
    "file_id",
    "mime_type",
    "file_name",
  ]);
});

test("a URL that is not https to a public address is refused, and nothing is kept", async () => {
  let asked = 0;
  const origin = await serve((_request, response) => {
    asked += 1;
    response.end("secret");
  });
  const { read, files, errors } = await start({});
  for (const url of [
    origin,
    "https://169.254.169.254/latest/meta-data",
    "https://localhost/a",
    "https://10.0.0.1/a",
    "file:///etc/passwd",
    "not a url",
  ])
    expect(await read(handed(url)), url).toMatch(/https and leads to a public address/);
  expect([asked, await files(), errors]).toEqual([0, [], []]);
});

test("a redirect into the server's own network is refused", async () => {
  const inner = await serve((_request, response) => response.end("secret"));
  const outer = await serve((_request, response) => {
    response.writeHead(302, { location: inner });
    response.end();
  });
  const { read, files } = await start({ trustedOrigins: [outer] });
  expect(await read(handed(outer))).toMatch(/https and leads to a public address/);
  expect(await files()).toEqual([]);
});

test("a file that is too large is refused, announced or not, and not stored", async () => {
  let sent = 0;
  const origin = await serve((request, response) => {
    const more = (): void => {
      sent += 1;
      if (!response.destroyed && response.write(noise(65_536))) setImmediate(more);
    };
    response.on("drain", more);
    if (request.url === "/told") response.end(noise(2_000));
    else more();
  });
  const { read, files } = await start({ terms: { maxBytes: 1_000 }, trustedOrigins: [origin] });
  expect(await read(handed(`${origin}/told`))).toMatch(/at most 1000 are accepted/);
  expect(await read(handed(`${origin}/endless`))).toMatch(/too large/);
  expect(await files()).toEqual([]);
  expect(sent).toBeLessThan(1_000);
});

test("without a size in its terms an argument takes what the uploads take", async () => {
  const large = noise(11 * 2 ** 20);
  const origin = await serve((_request, response) => response.end(large));
  const wide = await start({ trustedOrigins: [origin] });
  expect(await wide.read(handed(origin))).toContain(`${large.length}`);
  const narrow = await start({ trustedOrigins: [origin], options: { uploads: { maxBytes: 4 } } });
  expect(await narrow.read(handed(origin))).toMatch(/at most 4 are accepted/);
  expect(await narrow.read("data:text/plain,hello")).toMatch(/at most 4 are accepted/);
});

test("a file of another type, or one that breaks off, is refused, and nothing is kept", async () => {
  const origin = await serve((request, response) => {
    if (request.url === "/cut") {
      response.writeHead(200, { "content-length": "10" });
      response.write("abc");
      setTimeout(() => response.destroy(), 20);
    } else response.end("%PDF-1.7\n");
  });
  const { read, files } = await start({ terms: { accept: ["text/*"] }, trustedOrigins: [origin] });
  const lie = { mime_type: "text/plain", file_name: "a.txt" };
  expect(await read(handed(`${origin}/a.pdf`, lie))).toMatch(/type of file is not accepted/);
  expect(await read(handed(`${origin}/cut`, lie))).toMatch(/gave no file; attach it again/);
  expect(await files()).toEqual([]);
});

test("the response of a file's server goes to the log of the server, and not to the caller", async () => {
  const origin = await serve((_request, response) => {
    response.statusCode = 403;
    response.end("the bucket secret-bucket denies it");
  });
  const { read, errors } = await start({ trustedOrigins: [origin] });
  expect(await read(handed(`${origin}/a?sig=secret`))).toBe(
    "files: download_url gave no file; attach it again",
  );
  // the server's own log has the cause, without the secret
  const [told, ...others] = errors as Error[];
  expect(told).toMatchObject({ code: "permission_denied" });
  expect(told!.message).toMatch(new RegExp(`^files: download_url ${origin}/a gave no file: .*403`));
  expect([`${told!.stack} ${String(told!.cause)}`.includes("secret"), others]).toEqual([false, []]);
});
