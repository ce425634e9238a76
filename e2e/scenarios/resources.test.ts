import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client, Resource } from "@modelcontextprotocol/client";
import { EXTENSION_ID } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { connectOfficial, sdkNames, type SdkName } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { startSite, type Site } from "../bed/site.ts";

const photo = bytesOf(50_000, "photo");
const base = "files://site/";
const files = {
  "photo.jpg": photo,
  "notes/today.md": "# Today\n\nzwölf Zeilen\n",
  "notes/plan.md": "soon\n",
  "secret/keys.txt": "s3cret",
  ...Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`many/${n}.txt`, String(n)])),
};

describe.each(sdkNames)("%s as its SDK ships it", (sdk) => {
  let site: Site;
  let client: Client;

  beforeAll(async () => {
    site = await startSite({
      files,
      accounts: { "alice-token": { subject: "alice" } },
      sessions: true,
      attach: { tools: { read: "read_file", list: false, link: false } },
      author: (mcp, sluice) =>
        void mcp.registerTool(
          "find",
          { inputSchema: z.object({ uri: z.string() }) },
          async ({ uri }, ctx) => ({
            content: await sluice.resourceLink(uri, { mcp, ctx, previewBytes: 10 }),
          }),
        ),
      sluice: {
        pageSize: 10,
        access: (_who, uri) => (uri.includes("/secret/") ? "hide" : "allow"),
        describe: ({ key }) =>
          key === "photo.jpg"
            ? { title: "A photo", description: "Noise", audience: ["user"], priority: 0.5 }
            : undefined,
      },
    });
    client = await connectOfficial(sdk, site.url, { token: "alice-token" });
  });
  afterAll(async () => {
    await client.close();
    await site[Symbol.asyncDispose]();
  });

  test(
    "every page has links to the next one, and every resource on it can be read [MCP/resources/may-paginate] [ARTICLE/12.1/must-paginate] [ARTICLE/4.1/list] [ARTICLE/4.1/read]",
    { tags: "slow" },
    async () => {
      const pages = await pagesOf(sdk, client);
      expect(pages.length).toBeGreaterThan(2);
      const listed = pages.flat();
      expect(listed).toHaveLength(28);
      for (const { uri, size } of listed) {
        const { contents } = await client.readResource({ uri });
        const [content] = contents as { text?: string; blob?: string }[];
        const bytes = Buffer.from(
          content!.text ?? content!.blob!,
          content!.text ? "utf8" : "base64",
        );
        expect(bytes.length).toBe(size);
        expect(bytes.equals(Buffer.from(files[uri.slice(base.length) as keyof typeof files]))).toBe(
          true,
        );
      }
    },
  );

  test("metadata arrives: title, description, type, size, annotations, streamable [ARTICLE/4.2/resource-object] [ARTICLE/4.2/annotations] [MCP/resources/may-annotate]", async () => {
    const found = (await pagesOf(sdk, client)).flat().find(({ name }) => name === "photo.jpg");
    expect(found).toMatchObject({
      uri: `${base}photo.jpg`,
      title: "A photo",
      description: "Noise",
      mimeType: "image/jpeg",
      size: photo.length,
      annotations: {
        audience: ["user"],
        priority: 0.5,
        lastModified: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      },
      _meta: { [EXTENSION_ID]: { streamable: true, etag: expect.stringMatching(/^".+"$/) } },
    });
  });

  test("text is text, everything else base64 [MCP/security/must-encode-binary] [ARTICLE/4.2/contents] [ARTICLE/12.2/must-encode-binary]", async () => {
    const read = async (name: string) =>
      (await client.readResource({ uri: base + name })).contents[0];
    const text = await read("notes/today.md");
    expect(text).toMatchObject({ mimeType: "text/markdown", text: files["notes/today.md"] });
    expect(text).not.toHaveProperty("blob");
    const blob = await read("photo.jpg");
    // of RFC 4648 section 4, with its padding: decoders take more than that
    expect(blob).toMatchObject({ mimeType: "image/jpeg", blob: photo.toString("base64") });
    expect(blob).not.toHaveProperty("text");
  });

  test("a part is read by a request's _meta, and by a model with a tool [ARTICLE/12.1/ranged-reads]", async () => {
    const uri = `${base}notes/today.md`;
    const _meta = { [EXTENSION_ID]: { range: "lines 3-3" } };
    const { contents } = await client.readResource({ uri, _meta });
    expect(contents[0]).toMatchObject({
      text: "zwölf Zeilen\n",
      _meta: { [EXTENSION_ID]: { lines: "lines 3-3" } },
    });
    const { content } = await client.callTool({
      name: "read_file",
      arguments: { uri, range: "lines 1-1" },
    });
    expect(content).toMatchObject([
      { text: "# Today\n" },
      { text: expect.stringMatching(/next: /) },
    ]);
  });

  test("the template is listed and completed [MCP/templates/rfc6570] [MCP/completion/must-declare] [ARTICLE/5.3/templates]", async () => {
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates).toMatchObject([
      { uriTemplate: `${base}{+key}`, _meta: { [EXTENSION_ID]: { streamable: true } } },
    ]);
    const complete = async (value: string): Promise<string[]> =>
      (
        await client.complete({
          ref: { type: "ref/resource", uri: `${base}{+key}` },
          argument: { name: "key", value },
        })
      ).completion.values.toSorted();
    expect(await complete("n")).toEqual(["notes/"]);
    expect(await complete("notes/")).toEqual(["notes/plan.md", "notes/today.md"]);
    for (const nothing of ["sec", "../", "/etc/", "notes/../"])
      expect(await complete(nothing)).toEqual([]);
  });

  test("a hidden resource is neither listed, read, completed, subscribed to nor linked [MCP/completion/must-not-disclose] [ARTICLE/12.2/should-check-permissions] [MCP/security/should-check-permissions] [MCP/security/should-control-access] [ARTICLE/12.2/should-control-access]", async () => {
    const uri = `${base}secret/keys.txt`;
    expect(JSON.stringify(await pagesOf(sdk, client))).not.toContain("secret");
    await expect(client.readResource({ uri })).rejects.toThrow(/not found/i);
    for (const value of ["s", "secret/", "secret/k"]) {
      const ref = { type: "ref/resource", uri: `${base}{+key}` } as const;
      const { completion } = await client.complete({ ref, argument: { name: "key", value } });
      expect(completion.values).toEqual([]);
    }
    const { honored, stop } = await follow(sdk, client, [uri]);
    expect(honored).toEqual([]);
    await stop();
    const linked = await client.callTool({ name: "find", arguments: { uri } });
    expect(linked).toMatchObject({ isError: true });
    expect(JSON.stringify(linked)).not.toContain("s3cret");
    const told = await client.callTool({ name: "read_file", arguments: { uri } });
    expect(told).toMatchObject({ isError: true });
  });

  test("a tool's result links to a resource, with a preview of the same version [ARTICLE/7/resource-link]", async () => {
    const uri = `${base}notes/today.md`;
    const { content } = await client.callTool({ name: "find", arguments: { uri } });
    const [link, preview] = content as { _meta: Record<string, { etag: string; next?: string }> }[];
    expect(link).toMatchObject({
      type: "resource_link",
      uri,
      name: "today.md",
      mimeType: "text/markdown",
      size: Buffer.byteLength(files["notes/today.md"]),
    });
    expect(preview).toMatchObject({ type: "text", text: "# Today\n\nz" });
    expect(preview!._meta[EXTENSION_ID]!.etag).toBe(link!._meta[EXTENSION_ID]!.etag);
    const { next, etag } = preview!._meta[EXTENSION_ID]!;
    const rest = await client.readResource({
      uri,
      _meta: { [EXTENSION_ID]: { range: next, etag } },
    });
    expect(rest.contents[0]).toMatchObject({ text: "wölf Zeilen\n" });
  });

  test("changes of a folder arrive: of a file, of the list, and none after the end [ARTICLE/5.2/subscribe] [ARTICLE/5.2/list-changed] [ARTICLE/5.2/unsubscribe] [MCP/subscriptions/must-notify-subscribed] [MCP/list-changed/should-notify] [MCP/listen/must-acknowledge]", async () => {
    const listener = await connectOfficial(sdk, site.url, { token: "alice-token" });
    const heard: string[] = [];
    onChanges(listener, (what) => heard.push(what));
    const uri = `${base}notes/plan.md`;
    const hidden = `${base}secret/keys.txt`;
    const { honored, stop } = await follow(sdk, listener, [uri, hidden]);
    expect(honored).toEqual([uri]);
    const path = join(site.root, "notes/plan.md");
    let n = 0;
    // the first changes can come before the watch is armed
    await vi.waitFor(
      async () => {
        await writeFile(path, `soon ${n++}\n`);
        expect(heard).toContain(uri);
      },
      { timeout: 10_000, interval: 300 },
    );
    await vi.waitFor(
      async () => {
        await writeFile(join(site.root, `new-${sdk}-${n++}.txt`), "new");
        expect(heard).toContain("list");
      },
      { timeout: 10_000, interval: 300 },
    );
    expect(heard).not.toContain(hidden);
    await stop();
    await rm(path);
    await writeFile(path, files["notes/plan.md"]);
    await listener.close();
  });

  test("a cursor that is not the server's own is -32602 [MCP/pagination/should-refuse-cursor]", async () => {
    await expect(client.listResources({ cursor: "bm90IG91cnM" })).rejects.toMatchObject({
      code: -32602,
    });
  });
});

/** All pages; the method of the v2 client walks them itself when it gets no cursor. */
async function pagesOf(sdk: SdkName, client: Client): Promise<Resource[][]> {
  const pages: Resource[][] = [];
  let cursor: string | undefined;
  do {
    const page =
      sdk === "SDK v1"
        ? await client.listResources({ cursor })
        : await client.request({ method: "resources/list", params: { cursor } });
    pages.push(page.resources);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return pages;
}

/** Follows resources and the list as the era has it; which of them the server agreed to. */
async function follow(
  sdk: SdkName,
  client: Client,
  uris: string[],
): Promise<{ honored: string[]; stop: () => Promise<unknown> }> {
  if (sdk === "SDK v2, modern") {
    const subscription = await client.listen({
      resourceSubscriptions: uris,
      resourcesListChanged: true,
    });
    const { resourceSubscriptions: honored = [] } = subscription.honoredFilter;
    return { honored, stop: () => subscription.close() };
  }
  await client.listResources();
  const honored: string[] = [];
  for (const uri of uris)
    await client.subscribeResource({ uri }).then(
      () => honored.push(uri),
      () => undefined,
    );
  const stop = () => Promise.all(honored.map((uri) => client.unsubscribeResource({ uri })));
  return { honored, stop };
}

/** Clients of both versions name the same notifications in their own ways. */
function onChanges(client: Client, hear: (what: string) => void): void {
  client.fallbackNotificationHandler = async ({ method, params }) => {
    if (method === "notifications/resources/updated") hear(String(params?.["uri"]));
    if (method === "notifications/resources/list_changed") hear("list");
  };
}
