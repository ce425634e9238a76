import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const text = "the bytes of a resource ".repeat(20);
const uri = "x://by/read.txt";
const digest = createHash("sha256").update(text).digest();
const other = createHash("sha256").update("other").digest();

/** A server that says more of its resource than the bytes. */
function server(content: object, listed?: object): Promise<URL> {
  return handWritten(({ method, params }) => {
    if (method === "resources/read")
      return { result: { contents: [{ uri: params["uri"], text, ...content }] } };
    if (method !== "resources/list" || !listed) return undefined;
    // the resource is on the second page
    return params["cursor"] === undefined
      ? { result: { resources: [{ uri: "x://other", size: 1 }], nextCursor: "2" } }
      : { result: { resources: [{ uri, ...listed }] } };
  });
}

const forms = (bytes: Buffer): [string, object][] => [
  ["sha256 in hexadecimal", { sha256: bytes.toString("hex") }],
  ["sha256 in base64, behind a prefix", { "com.example/sha256": bytes.toString("base64") }],
  ["a digest of RFC 9530", { digest: `sha-256=:${bytes.toString("base64")}:` }],
  [
    "a digest of SEP-2631",
    { "a.b/digest": { algorithm: "sha-256", value: bytes.toString("base64url") } },
  ],
];

test.each<[string, string, object, object | undefined]>([
  ["nothing", "none", {}, undefined],
  ["a size in its list", "length", {}, { size: text.length }],
  ["a list without sizes", "none", {}, {}],
  ["a size beside the bytes", "length", { size: text.length }, { size: 1 }],
  ["what is no size", "none", { size: "7" }, { size: -1.5 }],
  ["what is no digest", "none", { _meta: { sha256: "x", digest: 5, etag: "0" } }, undefined],
  ...forms(digest).map(([name, meta]): [string, string, object, undefined] => [
    name,
    "digest",
    { _meta: meta },
    undefined,
  ]),
])(
  "a read of a server that gives %s is verified by it: %s",
  async (_what, verified, content, listed) => {
    const { save } = makeFolders();
    for (const inlineBytes of [100, 65_536]) {
      const client = await hostOf(await server(content, listed), { saveTo: save, inlineBytes });
      const path = `${inlineBytes}.txt`;
      const said = await callTool(client, "save_resource", { uri, path });
      expect(said).toMatchObject({ isError: false, facts: { verified, size: text.length } });
    }
  },
);

test.each<[string, object, object | undefined]>([
  ["another size in its list", {}, { size: 5 }],
  ["another size beside the bytes", { size: 5 }, undefined],
  ...forms(other).map(([name, meta]): [string, object, undefined] => [
    `another ${name}`,
    { _meta: meta },
    undefined,
  ]),
])("a read of a server that gives %s leaves no file", async (_what, content, listed) => {
  const { save } = makeFolders();
  for (const inlineBytes of [100, 65_536]) {
    const client = await hostOf(await server(content, listed), { saveTo: save, inlineBytes });
    const said = await callTool(client, "save_resource", { uri });
    expect(said.isError).toBe(true);
    expect(said.text).toMatch(/came with (?:another SHA-256|\d+ bytes, and the server says)/);
  }
  expect(readdirSync(save, { recursive: true })).toEqual(["spooled"]);
});
