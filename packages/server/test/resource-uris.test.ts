import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import type { SluiceOptions } from "@sluice/server";
import { describe, expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };

describe.each(eras)("a URI in the %s era", (era) => {
  test.each([
    "files://demo/x%2f..%2fa.bin",
    "files://demo/%00",
    "files://demo/x%2fa.bin",
    "files://demo/a.bin?x",
    "files://demo/a.bin#x",
    "files://demo//a.bin",
    "files://demo/a\\b",
    "files://demo/%zz",
    "files://demo",
    "files://other/a.bin",
    "a.bin",
    "",
  ])(
    "%j leads nowhere [MCP/security/must-validate-uris] [ARTICLE/12.2/must-validate-uris]",
    async (uri) => {
      const asked: string[] = [];
      const memory = createMemoryBackend({ "a.bin": "secret" });
      const storage = {
        ...memory,
        open: (key: string) => {
          asked.push(key);
          return memory.open(key);
        },
      };
      const talk = talkTo(createHouse({ ...open, storage }).sluice);
      const { message } = await talk(era, "resources/read", { params: { uri } });
      expect(message.result).toBeUndefined();
      expect(message.error!.code).toBeLessThan(0);
      expect(asked.filter((key) => key !== "a.bin")).toEqual([]);
      expect(JSON.stringify(message)).not.toContain("secret");
    },
  );

  test.each(["files://demo/../a.bin", "files://demo/%2e%2e/a.bin", "files://demo/x/%2E%2E/a.bin"])(
    "%j is what every URL parser makes of it, below the base [MCP/security/must-validate-uris]",
    async (uri) => {
      const talk = talkTo(createHouse(open).sluice);
      const { result } = (await talk(era, "resources/read", { params: { uri } })).message;
      expect(result.contents[0].uri).toBe("files://demo/a.bin");
    },
  );

  test("a missing resource is -32602, whatever the tables say, with its reason and URI [MCP/errors/should-codes] [ARTICLE/4.3/codes]", async () => {
    const talk = talkTo(createHouse(open).sluice);
    const uri = "files://demo/none";
    const { error } = (await talk(era, "resources/read", { params: { uri } })).message;
    expect(error).toMatchObject({ code: -32602, data: { reason: "not_found", uri } });
  });

  test("each fault has the number of its kind, and its reason says which it is [MCP/errors/should-codes] [ARTICLE/4.3/codes]", async () => {
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0" }), {
      describe: () => () => Promise.reject(new Error("disk broken")),
      open: () => () => Promise.reject(new Error("disk broken")),
    });
    const denied = era === "legacy" ? -32603 : -25325;
    const cases: [Partial<SluiceOptions>, string, number, string][] = [
      [{}, "files://demo/%zz", -32602, "invalid"],
      [{ access: () => "deny" }, "files://demo/a.bin", denied, "forbidden"],
      [{ storage }, "files://demo/a.bin", -32603, "internal"],
    ];
    for (const [options, uri, code, reason] of cases) {
      const talk = talkTo(createHouse({ ...open, ...options }).sluice);
      const { error } = (await talk(era, "resources/read", { params: { uri } })).message;
      expect([error?.code, error?.data.reason]).toEqual([code, reason]);
      expect(JSON.stringify(error)).not.toContain("disk broken");
    }
  });

  test("content is its text or its base64 and never both [ARTICLE/4.2/contents] [MCP/security/must-encode-binary]", async () => {
    const bytes = new Uint8Array([0, 0xfb, 0xff]);
    const storage = createMemoryBackend({ "t.txt": "text", "b.bin": bytes });
    const talk = talkTo(createHouse({ ...open, storage }).sluice);
    const read = async (name: string) => {
      const params = { uri: `files://demo/${name}` };
      const { text, blob } = (await talk(era, "resources/read", { params })).message.result
        .contents[0];
      return { text, blob };
    };
    expect(await read("t.txt")).toEqual({ text: "text", blob: undefined });
    expect(await read("b.bin")).toEqual({ text: undefined, blob: "APv/" });
  });

  test("a resource too large for JSON is refused before it is read [ARTICLE/11.2/no-token-stuffing]", async () => {
    const talk = talkTo(createHouse({ ...open, maxReadBytes: 9 }).sluice);
    const { error } = (await talk(era, "resources/read", { params: { uri: "files://demo/a.bin" } }))
      .message;
    expect(error!.data).toMatchObject({
      reason: "too_large",
      suggestion: "Use resources/stream for this resource",
    });
  });

  test("every name gives a URI of RFC 3986 [MCP/schemes/must-rfc3986] [ARTICLE/14/must-rfc3986]", async () => {
    const names = ["a b.txt", "ü.txt", "100%.txt", "[x](y).txt", "a?b#c.txt", "it's.txt"];
    const storage = createMemoryBackend(Object.fromEntries(names.map((name) => [name, name])));
    const talk = talkTo(createHouse({ ...open, storage }).sluice);
    const { resources } = (await talk(era, "resources/list")).message.result;
    expect(resources).toHaveLength(names.length);
    for (const { uri, name } of resources) {
      // unreserved characters and encodings only, behind the base
      expect(uri).toMatch(/^files:\/\/demo\/(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+$/);
      const { result } = (await talk(era, "resources/read", { params: { uri } })).message;
      expect(result.contents[0].text).toBe(name);
    }
  });
});

test.each([
  "1demo://a/",
  "de_mo://a/",
  "DEMO://a/",
  "demo:a/",
  "://a/",
  "demo://a b/",
  "demo://ä/",
])(
  "rejects %j as a base for URIs [MCP/schemes/must-rfc3986] [ARTICLE/14/must-rfc3986]",
  (baseUri) => expect(() => createHouse({ baseUri })).toThrow(TypeError),
);
