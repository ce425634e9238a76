import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import type { DeliveryMode } from "@sluice/core/internal";
import type { AuditRecord } from "@sluice/server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { covering } from "../bed/covering.ts";
import { createMeddler, type Meddler } from "../bed/meddler.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite, type Site } from "../bed/site.ts";

const content = bytesOf(300_000, "deck");
const uri = "files://site/decks/quarter.pptx";
const pptx = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];
const servers = { stateless: false, "with sessions": true };
const kinds = Object.keys(servers) as (keyof typeof servers)[];
const pairs = covering("modes, servers and SDKs", kinds, sdkNames);

describe.each(kinds)("a server %s", (kind) => {
  let site: Site;
  let store: SigningStore;
  let meddler: Meddler;
  let mode: DeliveryMode = "direct";
  const records: AuditRecord[] = [];

  beforeAll(async () => {
    site = await startSite({
      files: { "decks/quarter.pptx": content, "empty.bin": "" },
      accounts: { "alice-token": { subject: "alice" } },
      sessions: servers[kind],
      front: async (target) => (meddler = await createMeddler(target)),
      storage: async (files) => (store = await createSigningStore(files)).backend,
      sluice: () => ({
        delivery: () => mode,
        redirectOrigins: [store.origin],
        audit: (record) => void records.push(record),
      }),
    });
  });
  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    await store.close();
  });

  const sdks = sdkNames.filter((sdk) => pairs.some(([of, by]) => of === kind && by === sdk));

  describe.each(sdks)("and %s", (sdk) => {
    test.each(modes)(
      "bytes arrive equal, %s [SEP-2532/3.client/must-consume-binary] [SEP-2532/3.redirect/must-follow] [SEP-2532/3.download-url/must-send-credentials] [SEP-2532/transport-security/must-send-credentials] [SEP-2532/plan/http-integration]",
      async (delivery) => {
        mode = delivery;
        const client = await connect(sdk, site.url, { token: "alice-token" });
        const trustedOrigins = [store.origin];
        const stream = await streamResource(client, uri, { trustedOrigins });
        expect(stream).toMatchObject({ uri, mode, size: content.length });
        const saved = await stream.saveTo(join(site.target, `${sdk} ${mode}.pptx`));
        expect((await readFile(saved.path)).equals(content)).toBe(true);
        await client.close();
      },
    );

    test.each(modes)(
      "another spelling of the URI leads to the same bytes, %s",
      async (delivery) => {
        mode = delivery;
        const client = await connect(sdk, site.url, { token: "alice-token" });
        const spelled = uri.replace("decks/q", "%64ecks/%71");
        const stream = await streamResource(client, spelled, { trustedOrigins: [store.origin] });
        expect(stream).toMatchObject({ uri: spelled, mode });
        const saved = await stream.saveTo(join(site.target, `${sdk} spelled ${mode}.pptx`));
        expect((await readFile(saved.path)).equals(content)).toBe(true);
        await client.close();
      },
    );

    test.each(modes)(
      "type and name arrive with them, %s [SEP-2532/plan/stream-resource]",
      async (delivery) => {
        mode = delivery;
        const client = await connect(sdk, site.url, { token: "alice-token" });
        const stream = await streamResource(client, uri, { trustedOrigins: [store.origin] });
        expect(stream).toMatchObject({ mimeType: pptx, name: "quarter.pptx" });
        await stream.body.cancel();
        await client.close();
      },
    );

    test("an empty resource is a file of no bytes", async () => {
      mode = "direct";
      const client = await connect(sdk, site.url, { token: "alice-token" });
      const stream = await streamResource(client, "files://site/empty.bin");
      const { path } = await stream.saveTo(join(site.target, `${sdk}.empty`));
      expect(await readFile(path)).toHaveLength(0);
      await client.close();
    });

    test("no bearer and no session reach the storage origin, nor a body [SEP-2532/3.redirect/must-follow]", async () => {
      mode = "redirect";
      const client = await connect(sdk, site.url, { token: "alice-token" });
      const stream = await streamResource(client, uri, { trustedOrigins: [store.origin] });
      await stream.saveTo(join(site.target, `${sdk} private.pptx`));
      await client.close();
      expect(store.requests.length).toBeGreaterThan(0);
      for (const { method, url, headers, bodyBytes } of store.requests) {
        expect(method).toBe("GET");
        expect(bodyBytes).toBe(0);
        const everything = JSON.stringify([url, headers]);
        expect(everything).not.toContain("alice-token");
        for (const name of ["authorization", "cookie", "referer"])
          expect(headers).not.toHaveProperty(name);
        for (const name of Object.keys(headers)) expect(name).not.toMatch(/^mcp-/);
      }
    });

    test.each(modes)(
      "the server keeps one record of the call and one of the bytes, %s",
      async (delivery) => {
        mode = delivery;
        records.length = 0;
        const client = await connect(sdk, site.url, { token: "alice-token" });
        const stream = await streamResource(client, uri, { trustedOrigins: [store.origin] });
        await stream.saveTo(join(site.target, `${sdk} ${mode} audited.pptx`));
        await client.close();
        const issued = { action: "stream", mode, outcome: "issued", uri, bytes: 0 };
        const moved = { outcome: "complete", uri, bytes: content.length };
        const expected = {
          direct: [{ action: "stream", mode, ...moved }],
          redirect: [issued],
          downloadUrl: [issued, { action: "download", ...moved }],
        };
        await expect.poll(() => records).toMatchObject(expected[delivery]);
        for (const record of records) {
          expect(record.principal).toMatch(/^[0-9a-f]{64}$/);
          expect(JSON.stringify(record)).not.toMatch(/alice|streams\//);
        }
      },
    );

    test("the client declares what it takes, and accepts any type [SEP-2532/1.capability/must-declare-client] [SEP-2532/questions/should-accept-anything]", async () => {
      mode = "direct";
      const bodies: string[] = [];
      meddler.meddle = ({ request, body }) => {
        if (body.includes("resources/stream") || body.includes('"initialize"'))
          bodies.push(`${request.headers.accept} ${body.toString()}`);
        return false;
      };
      const client = await connect(sdk, site.url, { token: "alice-token", maxStreamSize: 5e6 });
      const stream = await streamResource(client, uri, { maxStreamBytes: 5e6 });
      await stream.body.cancel();
      await client.close();
      meddler.meddle = () => false;
      for (const body of bodies)
        expect(body).toContain('"resourceStreaming":{"maxStreamSize":5000000');
      const asked = bodies.find((body) => body.includes("resources/stream"));
      expect(asked).toMatch(/^[^{]*application\/json[^{]*\*\/\*/);
    });
  });
});
