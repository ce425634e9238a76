import { join } from "node:path";
import { streamResource } from "@sluice/client/node";
import { expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { startSite } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const sizeBytes = (process.env["SLUICE_DEEP"] ? 2_048 : 256) * 2 ** 20;

test("sixteen connections to a server that lets each principal have eight streams save the file, every byte once", async () => {
  let wire: Wire | undefined;
  await using site = await startSite({
    sparse: { "disk.img": sizeBytes },
    accounts: { "alice-token": { subject: "alice" } },
    front: async (target) => (wire = await createWire(target)),
  });
  const client = await connect(sdkNames[0]!, site.url, { token: "alice-token" });
  const before = wire!.sent;
  const stream = await streamResource(client, "files://site/disk.img", {
    maxStreamSize: sizeBytes,
    // a refusal that is waited for would be over at once, five times
    timeouts: { pauseScale: 0 },
  });
  const saved = await stream.saveTo(join(site.target, "disk.img"), { connections: 16 });
  expect(saved.size).toBe(sizeBytes);
  const ratio = (wire!.sent - before) / sizeBytes;
  process.stdout.write(`sixteen connections, eight streams: ${ratio.toFixed(3)} × of the file\n`);
  expect(ratio).toBeLessThan(1.05);
  await client.close();
});
