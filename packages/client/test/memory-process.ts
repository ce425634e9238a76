import { streamResource } from "@sluice/client";
import { createResourceCache } from "@sluice/client/cache";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";

// takes one resource of each server in one of three ways, and prints how much memory that took, in bytes
const [way = "", directory = "", ...urls] = process.argv.slice(2);
const uri = "x://a/b.bin";

async function take(url: string): Promise<void> {
  const client = createRawClient(url, withStreaming());
  if (way === "cache") {
    const cache = createResourceCache(client, { maxResourceBytes: 2 ** 25 });
    await cache.read(uri);
  } else if (way === "save") await (await streamResource(client, uri)).saveTo(directory);
  else await (await streamResource(client, uri)).body.cancel();
}

// what getrusage(2) says of a process may be from before it was started
const idle = process.memoryUsage.rss();
let peak = idle;
const look = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()));
setInterval(look, 5).unref();
const reports: { readonly growth: number; readonly outcome: string }[] = [];
for (const url of urls) {
  const outcome = await take(url).then(
    () => "taken",
    (error: { code?: string; message?: string }) => `${error.code} ${error.message}`,
  );
  look();
  reports.push({ growth: peak - idle, outcome });
}
process.stdout.write(JSON.stringify(reports));
process.exit();
