import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { callTool, hostOf, listening, makeFolders } from "./filing.ts";

/** A server over stdio that takes files by `files/authorizeUpload`, and tells how often it was asked. */
function authorizing(address: string) {
  const source = `
    const say = (m) => console.log(JSON.stringify({ jsonrpc: "2.0", ...m }));
    let authorized = 0;
    const schema = { type: "object", properties: { file: { type: "string", "x-mcp-file": {} } } };
    const results = {
      initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }),
      "tools/list": () => ({ tools: [{ name: "take", inputSchema: schema }] }),
      "files/authorizeUpload": () => ({
        file: { uri: "files://" + ++authorized },
        upload: { transport: "https", method: "PUT", url: ${JSON.stringify(address)} },
      }),
      "tools/call": (p) => ({ content: [{ type: "text", text: p.arguments.file + " of " + authorized }] }),
    };
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      const result = results[method]?.(params);
      if (id !== undefined) say(result ? { id, result } : { id, error: { code: -32601, message: "Method not found" } });
    });`;
  return { command: process.execPath, args: ["-e", source] };
}

test.each(["127.0.0.1", "trusted"])(
  "a process authorizes one upload a file, which goes to it once: %s",
  async (place) => {
    const { send } = makeFolders();
    writeFileSync(join(send, "my.txt"), "a file");
    const got: string[] = [];
    const url = await listening((request, response) => {
      request.on("data", (chunk: Buffer) => void got.push(chunk.toString()));
      request.on("end", () => response.end());
    });
    const options = { sendFrom: [send], trustedOrigins: place === "trusted" ? [url.origin] : [] };
    const client = await hostOf(authorizing(new URL("/put", url).href), options);
    const said = await callTool(client, "send_file", { path: "my.txt" });
    expect(said).toMatchObject({ isError: false, facts: { way: "uri" } });
    expect(said.text).toContain("files://1 of 1");
    expect(got).toEqual(["a file"]);
  },
);

test("an address elsewhere is refused before any byte", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), "a file");
  const client = await hostOf(authorizing("https://elsewhere.example/put"), { sendFrom: [send] });
  const said = await callTool(client, "send_file", { path: "my.txt" });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("elsewhere.example") });
});
