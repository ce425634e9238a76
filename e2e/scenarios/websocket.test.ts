import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import type { DeliveryMode } from "@sluice/core/internal";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { connectSocket, startWebSocketSite } from "../bed/websocket.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const content = bytesOf(4_000_000, "websocket");
const files = { "disk.img": content };
const uri = "files://site/disk.img";
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];

describe.each(sdkNames)("%s over WebSocket", (sdk) => {
  test.each(modes)(
    "is given a download URL, though the policy says %s [SEP-2532/4.websocket/must-download-url]",
    async (delivery) => {
      const origin = "https://bucket.example.com";
      const presign = async () => ({
        url: `${origin}/a?s=1`,
        expiresAt: Date.now() + 9e5,
      });
      const storage = { ...createMemoryBackend(files), presign };
      await using site = await startWebSocketSite({
        files,
        sluice: { delivery, storage, redirectOrigins: [origin] },
      });
      const client = await connectSocket(sdk, site.url, {
        token: "ann",
        downloads: site.downloads,
      });
      const stream = await streamResource(client, uri);
      expect([stream.mode, stream.size]).toEqual(["downloadUrl", content.length]);
      const { path, verified } = await stream.saveTo(join(site.target, "disk.img"));
      expect((await readFile(path)).equals(content)).toBe(true);
      expect(verified).toBeDefined();
      await client.close();
    },
  );

  test("goes on where the sidecar's connection broke", async () => {
    let wire: Wire | undefined;
    await using site = await startWebSocketSite({
      files,
      front: async (target) => (wire = await createWire(target)),
    });
    const client = await connectSocket(sdk, site.url, { token: "ann", downloads: site.downloads });
    const before = wire!.sent;
    wire!.cutAfter(1_500_000);
    const stream = await streamResource(client, uri, { timeouts: { pauseScale: 0 } });
    const { path } = await stream.saveTo(join(site.target, "disk.img"));
    expect((await readFile(path)).equals(content)).toBe(true);
    expect(wire!.sent - before).toBeLessThan(content.length + 1_000_000);
    await client.close();
  });

  test("gets the bytes of its own principal's URLs alone, and sends its token to named origins alone", async () => {
    await using site = await startWebSocketSite({ files });
    const ann = await connectSocket(sdk, site.url, { token: "ann", downloads: site.downloads });
    const bob = await connectSocket(sdk, site.url, { token: "bob" });
    const urlOf = async (client: typeof ann): Promise<string> => {
      const params = {
        uri,
        _meta: { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } },
      };
      const result = (await client.request(
        { method: "resources/stream", params } as never,
        z.looseObject({}) as never,
      )) as { downloadUrl: string };
      return result.downloadUrl;
    };
    const url = await urlOf(ann);
    const asked = async (token?: string): Promise<number> => {
      const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
      const response = await fetch(url, { headers });
      await response.arrayBuffer();
      return response.status;
    };
    expect([await asked("ann"), await asked("bob"), await asked()]).toEqual([200, 404, 401]);

    // the user must name another origin than that of the socket
    await expect(streamResource(bob, uri)).rejects.toMatchObject({ code: "untrusted" });
    const trustedOrigins = [site.downloads];
    await expect(streamResource(bob, uri, { trustedOrigins })).rejects.toMatchObject({
      code: "unauthenticated",
    });
    await ann.close();
    await bob.close();
  });
});

test("an unknown token opens no connection", async () => {
  await using site = await startWebSocketSite({ files });
  await expect(
    connectSocket("SDK v2, modern", site.url, { token: "nobody" }),
  ).rejects.toMatchObject({ code: "unauthenticated" });
});
