import {
  lstatSync,
  mkdirSync,
  realpathSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { createFileSender } from "@sluice/client/send";
import { expect, onTestFinished, test } from "vitest";
import { ensureInPlace } from "../src/confine/send-folders.ts";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const secret = "a secret of the user";

/** A file in a folder, and what puts a link in that folder's place and takes it away again. */
function swappable() {
  const { send, outside } = makeFolders();
  mkdirSync(join(send, "in"));
  writeFileSync(join(send, "in", "my.txt"), "a file of the same size.".slice(0, secret.length));
  writeFileSync(join(outside, "my.txt"), secret);
  return {
    send,
    path: join(send, "in", "my.txt"),
    swap: () => {
      renameSync(join(send, "in"), join(send, "was"));
      symlinkSync(outside, join(send, "in"));
    },
    swapBack: () => {
      renameSync(join(send, "in"), join(send, "link"));
      renameSync(join(send, "was"), join(send, "in"));
    },
  };
}

/** A server that does `onMethod` before it answers, and what it got. */
async function takingServer(schema: object, onMethod: (method: string) => void) {
  const got: string[] = [];
  let base = "";
  const url = await handWritten(
    ({ method, params }) => {
      onMethod(method);
      if (method === "tools/list")
        return {
          result: { tools: [{ name: "take", inputSchema: { type: "object", ...schema } }] },
        };
      const data: unknown = params["arguments"]?.data;
      if (typeof data === "string") got.push(Buffer.from(data, "base64").toString());
      return {
        result: { content: [], structuredContent: { upload_url: new URL("/put", base).href } },
      };
    },
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        got.push(Buffer.concat(chunks).toString());
        response.end();
      });
    },
  );
  base = url.href;
  return { url, got };
}

const base64 = { properties: { data: { type: "string", contentEncoding: "base64" } } };

test.each([
  // the bridge lists once to tell its own tools from the server's, then for the one that takes the file
  ["in an argument", base64, ["tools/list", "tools/list"]],
  ["to an address", {}, ["tools/list", "tools/list"]],
  ["to an address that the call gave", {}, ["tools/call"]],
])("a folder that becomes a link while a file goes %s leads nowhere", async (_way, schema, at) => {
  const { send, swap } = swappable();
  const awaited = [...at];
  const { url, got } = await takingServer(schema, (method) => {
    if (method === awaited[0] && awaited.shift() && awaited.length === 0) swap();
  });
  const host = new Client({ name: "h", version: "1" });
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, host);
  const said = await callTool(client, "send_file", { path: "in/my.txt", tool: "take" });
  expect(awaited).toEqual([]);
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("changed") });
  expect(got).toEqual([]);
});

test("a file that another one replaces meanwhile is not sent in an argument", async () => {
  const { send, path } = swappable();
  let lists = 0;
  const { url, got } = await takingServer(base64, (method) => {
    if (method !== "tools/list" || ++lists !== 2) return;
    writeFileSync(join(send, "other"), secret);
    renameSync(join(send, "other"), path);
  });
  const host = new Client({ name: "h", version: "1" });
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, host);
  const said = await callTool(client, "send_file", { path: "in/my.txt", tool: "take" });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("changed") });
  expect(got).toEqual([]);
});

test("negative control: a sender that has only the path follows the link", async () => {
  const { path, swap } = swappable();
  const { url, got } = await takingServer({}, () => {});
  const sender = createFileSender({
    endpoint: url,
    onFilesRequested: () => ({ action: "decline" }),
  });
  const looked = realpathSync(path);
  swap();
  const upload = { transport: "https", method: "PUT", url: new URL("/put", url).href };
  await sender.upload({ request: async () => ({ file: { uri: "x:y" }, upload }) }, looked);
  expect(got).toEqual([secret]);
});

test("a file that was opened through a link is not taken after the link is gone", async () => {
  const { path, swap, swapBack } = swappable();
  swap();
  const handle = await open(path);
  onTestFinished(() => handle.close());
  swapBack();
  // the path alone shows nothing any more
  expect(realpathSync(path)).toBe(path);
  expect(lstatSync(path).size).toBe(secret.length);
  await expect(ensureInPlace(handle, path)).rejects.toMatchObject({ code: "untrusted" });
});
