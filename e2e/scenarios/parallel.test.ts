// @module-tag slow
import { rm } from "node:fs/promises";
import { streamResource } from "@sluice/client";
import { expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { startSite } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const mostRatio = 1.05;
const sizeBytes = (process.env["SLUICE_DEEP"] ? 2_048 : 256) * 2 ** 20;

test("sixteen connections to a server that lets each principal have eight streams save the file, every byte once", async () => {
  let wire: Wire | undefined;
  await using site = await startSite({
    sparse: { "disk.img": sizeBytes },
    accounts: { "alice-token": { subject: "alice" } },
    front: async (target) => (wire = await createWire(target)),
  });
  const client = await connect(sdkNames[0]!, site.url, { token: "alice-token" });
  const ratios: number[] = [];
  // a disk that stalls lets more pile up on the way than an answer that is cut short can take back
  while (ratios.length < 3 && (ratios.at(-1) ?? Infinity) >= mostRatio) {
    const before = wire!.sent;
    const stream = await streamResource(client, "files://site/disk.img", {
      maxStreamBytes: sizeBytes,
      // a refusal that is waited for would be over at once, five times
      timeouts: { pauseScale: 0 },
    });
    const saved = await stream.saveTo(site.target, { connections: 16 });
    expect(saved.size).toBe(sizeBytes);
    await rm(saved.path);
    ratios.push((wire!.sent - before) / sizeBytes);
  }
  const ratio = ratios.at(-1)!;
  process.stdout.write(`sixteen connections, eight streams: ${ratio.toFixed(3)} × of the file\n`);
  expect(ratio).toBeLessThan(mostRatio);
  await client.close();
});

test.each(["direct", "downloadUrl"] as const)(
  "eight connections to a server whose URLs are used once save the file: %s delivery",
  async (delivery) => {
    await using site = await startSite({
      sparse: { "disk.img": 64 * 2 ** 20 },
      accounts: { "alice-token": { subject: "alice" } },
      sluice: { grant: { use: "once" } },
    });
    const client = await connect(sdkNames[0]!, site.url, { token: "alice-token" });
    const stream = await streamResource(client, "files://site/disk.img", { prefer: [delivery] });
    const saved = await stream.saveTo(site.target, { connections: 8 });
    expect([stream.mode, saved.size]).toEqual([delivery, 64 * 2 ** 20]);
    await client.close();
  },
);
