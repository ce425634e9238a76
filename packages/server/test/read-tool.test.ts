import { SluiceError } from "@sluice/core";
import { createMcpHandler, McpServer, requireScopes } from "@modelcontextprotocol/server";
import type { SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };
const uri = "files://demo/t.txt";

function tool(options: Partial<SluiceOptions> = {}) {
  const storage = createMemoryBackend({
    "t.txt": "eins\nzwei\ndrei\n",
    "b.bin": new Uint8Array([1, 2, 3]),
    "long.txt": "x".repeat(100_000),
    "hidden.txt": "secret",
  });
  const house = createHouse({
    ...open,
    storage,
    access: (_who, of) => (of.includes("hidden") ? "hide" : "allow"),
    ...options,
  } as Partial<SluiceOptions>);
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerResource("own", "files://demo/own.txt", {}, () => ({ contents: [] }));
    return house.sluice.attach(mcp, { tools: { read: "read_file", list: false, link: false } });
  });
  return {
    ...house,
    storage,
    call: async (
      args: object,
      authInfo?: { token: string; clientId: string; scopes: string[] },
    ) => {
      const body = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "read_file", arguments: args },
      };
      const request = new Request("http://127.0.0.1/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify(body),
      });
      const response = await handler.fetch(request, {
        parsedBody: body,
        ...(authInfo && { authInfo }),
      });
      const data = /^data: ?(\{.*\})$/m.exec(await response.text())?.[1];
      return JSON.parse(data!).result;
    },
  };
}

describe("the tool that reads parts", () => {
  test("gives lines, says where they are and how to go on [ARTICLE/12.1/ranged-reads]", async () => {
    const { call } = tool();
    const { content } = await call({ uri, range: "lines 1-2" });
    expect(content[0]).toEqual({ type: "text", text: "eins\nzwei\n" });
    expect(content[1].text).toMatch(
      /^bytes 0-9, lines 1-2 of 15 bytes; next: lines 3-; etag: [^"]+$/,
    );
    const [, next] = /next: ([^;]+)/.exec(content[1].text)!;
    const rest = await call({ uri, range: next });
    expect(rest.content[0].text).toBe("drei\n");
    expect(rest.content[1].text).toContain("this is the end");
  });

  test("without a range gives the beginning, never more than 64 KiB", async () => {
    const { content } = await tool().call({ uri: "files://demo/long.txt" });
    expect(content[0].text).toHaveLength(65_536);
    expect(content[1].text).toContain("next: bytes 65536-");
  });

  test.each([undefined, "bytes 1-2"])(
    "says of what is not text what it is, and links to it, range: %s",
    async (range) => {
      const { storage, call } = tool();
      storage.put("page.bin", new Uint8Array(100_000).fill(1));
      for (const [name, size] of Object.entries({ "b.bin": 3, "page.bin": 100_000 })) {
        const there = `files://demo/${name}`;
        const answer = await call({ uri: there, range });
        expect(answer.isError).toBeUndefined();
        expect(answer.content).toEqual([
          {
            type: "text",
            text:
              `${name} is not text: application/octet-stream, ${size} bytes. ` +
              `The client gets its bytes with resources/read of ${there}.`,
          },
          expect.objectContaining({ type: "resource_link", uri: there, name, size }),
        ]);
        expect(JSON.stringify(answer).length).toBeLessThan(1_000);
      }
    },
  );

  test("gives the text of a file without an extension, and of one that is empty", async () => {
    const { storage, call } = tool();
    storage.put("Makefile", "all:\n");
    storage.put("none.txt", "");
    expect((await call({ uri: "files://demo/Makefile" })).content[0].text).toBe("all:\n");
    const { content } = await call({ uri: "files://demo/none.txt" });
    expect([content[0].text, content[1].text]).toEqual([
      "",
      expect.stringMatching(/^bytes none of 0 bytes; this is the end/),
    ]);
  });

  test("a hidden resource is answered as a missing one", async () => {
    const { call } = tool();
    const answers = await Promise.all(
      ["hidden", "missin"].map((name) => call({ uri: `files://demo/${name}.txt` })),
    );
    const [hidden, missing] = answers.map((answer) =>
      JSON.stringify(answer).replaceAll(/hidden|missin/g, "x"),
    );
    expect(hidden).toBe(missing);
    expect(answers[0]).toMatchObject({ isError: true });
    expect(answers[0].content[0].text).toContain("No such resource");
  });

  test("needs the scopes of reading, and does not lead around the author's resources", async () => {
    const { call } = tool({ scopeChallenge: requireScopes("files:read") });
    const authInfo = { token: "t", clientId: "c", scopes: [] };
    const refused = await call({ uri }, authInfo);
    expect(refused).toMatchObject({ isError: true });
    expect(refused.content[0].text).toContain("Not permitted");
    const allowed = await call({ uri }, { ...authInfo, scopes: ["files:read"] });
    expect(allowed.content[0].text).toContain("eins");
    const own = await tool().call({ uri: "files://demo/own.txt" });
    expect(own.content[0].text).toContain("No such resource");
  });

  test("says what to do when the version is another one, the range is odd or storage fails", async () => {
    const { call, storage, errors } = tool();
    const first = await call({ uri, range: "lines 1-1" });
    const [, etag] = /etag: (.+)/.exec(first.content[1].text)!;
    for (const same of [etag, `"${etag}"`])
      expect((await call({ uri, range: "lines 2-2", etag: same })).isError).toBeUndefined();
    storage.put("t.txt", "new\n");
    const changed = await call({ uri, range: "lines 2-2", etag });
    expect(changed.content[0].text).toMatch(/has changed: read it from the start/);
    expect((await call({ uri, range: "the middle" })).content[0].text).toMatch(/bytes 0-99/);
    expect(errors).toEqual([]);
    const broken = tool({
      storage: () => {
        throw new Error("no backend");
      },
    });
    const busy = tool({
      storage: () => {
        throw new SluiceError("unavailable", "s3: open: the connection broke", {
          retryAfterMs: 2_500,
        });
      },
    });
    const waiting = (await busy.call({ uri })).content[0].text;
    expect(waiting).toBe(`${uri}: Not possible at the moment: try again in 3 s`);
    const answer = await broken.call({ uri });
    expect(answer.content[0].text).toMatch(/try again later/);
    expect(JSON.stringify(answer)).not.toContain("no backend");
    expect(broken.errors).toHaveLength(1);
  });

  test("each call is on record with its bytes", async () => {
    const { call, records } = tool();
    await call({ uri, range: "bytes 0-3" });
    expect(records).toMatchObject([{ action: "read", outcome: "complete", bytes: 4, uri }]);
  });
});
