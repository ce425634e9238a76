import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client, Resource } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server as LowServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { streamResource } from "@sluice/client";
import { generateKey } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { createSluice, type AuditRecord, type MountOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { services, type Service } from "../bed/backends.ts";
import { connect, sdkNames, type SdkName } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { covering } from "../bed/covering.ts";
import { holdBody } from "../bed/hold.ts";
import { createMeddler, type Meddler } from "../bed/meddler.ts";
import { startSite, type Site } from "../bed/site.ts";

const size = 3_000_000;
/** What may lie in buffers between the place of the break and the reader. */
const slack = 1_000_000;
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];
const bases = { fs: "files://site/", s3: "bucket://acme/" } as const;
type Name = keyof typeof bases;
const names = Object.keys(bases) as Name[];
/** Each mount by each mode, with one client after the other; with each of them under SLUICE_DEEP=1. */
const transfers = covering(
  "mounts, transfers and SDKs",
  modes.flatMap((mode) => names.map((name) => ({ mode, name }))),
  sdkNames,
);
/** One key in both mounts, with contents of one size. */
const contents = { fs: bytesOf(size, "folder"), s3: bytesOf(size, "bucket") };

describe("a folder and a bucket in one server", () => {
  let site: Site;
  let line: Meddler;
  let mode: DeliveryMode = "direct";
  const backends = {} as Record<Name, Service>;
  const records: AuditRecord[] = [];

  beforeAll(async () => {
    for (const name of names) {
      backends[name] = await services[name]();
      await backends[name].put("disk.img", contents[name]);
      await backends[name].put(`only-${name}.txt`, Buffer.from(name));
    }
    site = await startSite({
      accounts: { "alice-token": { subject: "alice" } },
      sessions: true,
      front: async (target) => (line = await createMeddler(target)),
      mounts: () =>
        names.map((name) => ({
          baseUri: bases[name],
          storage: backends[name].backend,
          redirectOrigins: [backends[name].store.origin],
        })),
      sluice: {
        pageSize: 1,
        delivery: () => mode,
        audit: (record) => void records.push(record),
      },
    });
  });
  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    for (const name of names) await backends[name][Symbol.asyncDispose]();
  });

  describe.each(sdkNames)("%s", (sdk) => {
    const open = () => connect(sdk, site.url, { token: "alice-token" });

    test("lists the folder, then the bucket, in pages of one cursor", async () => {
      const client = await open();
      const listed = await listAll(sdk, client);
      expect(listed.map(({ uri }) => uri)).toEqual(
        names.flatMap((name) => [`${bases[name]}disk.img`, `${bases[name]}only-${name}.txt`]),
      );
      const { resourceTemplates } = await client.listResourceTemplates();
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(
        names.map((name) => `${bases[name]}{+key}`),
      );
      await client.close();
    });

    test.each(transfers.flatMap(([transfer, by]) => (by === sdk ? [transfer] : [])))(
      "resources in the list of $name are streamed by $mode, broken in the middle and resumed",
      async ({ name, mode: delivery }) => {
        mode = delivery;
        const client = await open();
        const found = (await listAll(sdk, client)).find(
          ({ uri }) => uri === `${bases[name]}disk.img`,
        );
        const { store } = backends[name];
        const broken = delivery === "redirect" ? store : line;
        const hold = holdBody(broken, size, 1_700_000);
        const before = broken.requests.length;
        records.length = 0;
        const stream = await streamResource(client, found!.uri, {
          timeouts: { pauseScale: 0 },
          trustedOrigins: [store.origin],
          onProgress({ bytes }) {
            if (bytes >= 1_700_000 - slack) hold.reset();
          },
        });
        expect(stream).toMatchObject({ uri: found!.uri, mode: delivery, size });
        const { path } = await stream.saveTo(join(site.target, `${sdk} ${name} ${delivery}`));
        expect((await readFile(path)).equals(contents[name])).toBe(true);
        const ranges = broken.requests
          .slice(before)
          .flatMap(({ headers }) => (headers.range === undefined ? [] : [headers.range]));
        expect(ranges).toEqual([expect.stringMatching(/^bytes=[1-9]\d{5,}-/)]);
        for (const { uri } of records) expect(uri).toBe(found!.uri);
        await client.close();
      },
    );
  });
});

/** All pages; the method of the v2 client walks them itself when it gets no cursor. */
async function listAll(sdk: SdkName, client: Client): Promise<Resource[]> {
  const all: Resource[] = [];
  let cursor: string | undefined;
  do {
    const page =
      sdk === "SDK v1"
        ? await client.listResources({ cursor })
        : await client.request({ method: "resources/list", params: { cursor } });
    all.push(...page.resources);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}

/** Servers of SDK v1, which the SDK v2 inside Sluice does not answer for. */
const servers = {
  "McpServer of SDK v1": () => new McpServerV1({ name: "v1", version: "1" }),
  "Server of SDK v1": () =>
    new LowServerV1({ name: "v1", version: "1" }, { capabilities: { resources: {} } }),
};

describe.each(Object.keys(servers) as (keyof typeof servers)[])("with a %s", (kind) => {
  const docs: MountOptions = {
    baseUri: "docs://acme/",
    storage: createMemoryBackend({ "a.txt": "of docs" }),
  };

  /** Answers of a server with these mounts, as text. */
  async function asking(mounts: readonly MountOptions[]) {
    const sluice = createSluice({
      mounts,
      endpoint: "http://127.0.0.1/mcp",
      keys: [generateKey()],
      onWarning: () => {},
    });
    const server = sluice.attach(servers[kind]());
    const [near, far] = InMemoryTransport.createLinkedPair();
    const waiting: ((text: string) => void)[] = [];
    Object.assign(near, {
      onmessage(message: object) {
        if (!("method" in message)) waiting.shift()?.(JSON.stringify(message));
      },
    });
    await server.connect(far);
    await near.start();
    const ask = (method: string, params: object): Promise<string> =>
      new Promise((resolve, reject) => {
        waiting.push(resolve);
        near.send({ jsonrpc: "2.0", id: 1, method, params: { ...params } }).catch(reject);
      });
    await ask("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    });
    return { ask, close: () => near.close() };
  }

  test("a mount that the caller does not have is, to the byte, as one that is not configured", async () => {
    const drive = { baseUri: "drive://me/", storage: () => undefined };
    const [having, empty] = [await asking([drive, docs]), await asking([docs])];
    const ref = { type: "ref/resource", uri: "drive://me/{+key}" };
    const calls: [string, object][] = [
      ...["drive://me/a.txt", "drive://me/a b", "drive://me/%zz"].flatMap(
        (uri): [string, object][] =>
          ["resources/read", "resources/subscribe"].map((method) => [method, { uri }]),
      ),
      ["completion/complete", { ref, argument: { name: "key", value: "" } }],
      ["resources/templates/list", {}],
    ];
    for (const [method, params] of calls)
      expect(await having.ask(method, params)).toBe(await empty.ask(method, params));
    expect(await having.ask("resources/read", { uri: "docs://acme/a.txt" })).toContain("of docs");
    await having.close();
    await empty.close();
  });

  test("each of two mounts is read, completed and listed", async () => {
    const media = {
      baseUri: "media://acme/",
      storage: createMemoryBackend({ "clip.txt": "of media" }),
    };
    const { ask, close } = await asking([docs, media]);
    const listed = await ask("resources/list", {});
    for (const uri of ["docs://acme/a.txt", "media://acme/clip.txt"]) {
      expect(listed).toContain(uri);
      expect(await ask("resources/read", { uri })).toContain(`of ${uri.split(":")[0]}`);
    }
    const ref = { type: "ref/resource", uri: "media://acme/{+key}" };
    expect(
      await ask("completion/complete", { ref, argument: { name: "key", value: "" } }),
    ).toContain("clip.txt");
    await close();
  });
});
