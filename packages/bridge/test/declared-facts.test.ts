import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const text = "the bytes of a resource ".repeat(20);
const uri = "x://by/read.txt";
const digest = createHash("sha256").update(text).digest();
const other = createHash("sha256").update("other").digest();

/** What the server says of its resource: beside the bytes, and in its list. */
let told: { readonly content: object; readonly listed: object | undefined };
/** Hosts of bridges that get the text in a file, and in the message itself; folders of reads that fail. */
const hosts: { readonly saving: Client; readonly failing: Client }[] = [];
const failed: string[] = [];

beforeAll(async () => {
  const server = await handWritten(
    ({ method, params }) => {
      const { content, listed } = told;
      if (method === "resources/read")
        return { result: { contents: [{ uri: params["uri"], text, ...content }] } };
      if (method !== "resources/list" || !listed) return undefined;
      // the resource is on the second page
      return params["cursor"] === undefined
        ? { result: { resources: [{ uri: "x://other", size: 1 }], nextCursor: "2" } }
        : { result: { resources: [{ uri, ...listed }] } };
    },
    undefined,
    false,
    afterAll,
  );
  for (const inlineBytes of [100, 65_536]) {
    const host = (saveTo: string) => hostOf(server, { saveTo, inlineBytes }, "legacy", afterAll);
    const { save, outside } = makeFolders(afterAll);
    failed.push(outside);
    hosts.push({ saving: await host(save), failing: await host(outside) });
  }
});

let saves = 0;

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
  ["an invalid size", "none", { size: "7" }, { size: -1.5 }],
  ["an invalid digest", "none", { _meta: { sha256: "x", digest: 5, etag: "0" } }, undefined],
  ...forms(digest).map(([name, meta]): [string, string, object, undefined] => [
    name,
    "digest",
    { _meta: meta },
    undefined,
  ]),
])(
  "a read of a server that gives %s is verified by it: %s",
  async (_what, verified, content, listed) => {
    told = { content, listed };
    for (const { saving } of hosts) {
      const said = await callTool(saving, "save_resource", { uri, path: `${++saves}.txt` });
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
  told = { content, listed };
  for (const { failing } of hosts) {
    const said = await callTool(failing, "save_resource", { uri });
    expect(said.isError).toBe(true);
    expect(said.text).toMatch(/came with (?:another SHA-256|\d+ bytes, and the server says)/);
  }
  for (const folder of failed)
    expect(readdirSync(folder, { recursive: true })).toEqual(["spooled"]);
});
