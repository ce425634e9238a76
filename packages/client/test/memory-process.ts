import { createResourceCache, streamResource, withStreaming } from "@sluice/client/node";
import { createRawClient } from "./raw-client.ts";

// takes one resource in one of three ways, and prints how much memory that took, in bytes
const [url = "", way = "", directory = ""] = process.argv.slice(2);
const client = createRawClient(url, withStreaming());
const uri = "x://a/b.bin";

async function take(): Promise<void> {
  if (way === "cache") {
    const cache = createResourceCache(client, { maxResourceBytes: 2 ** 25 });
    await cache.read(uri);
  } else if (way === "save") await (await streamResource(client, uri)).saveTo(directory);
  else await (await streamResource(client, uri)).body.cancel();
}

const idle = process.memoryUsage.rss();
const outcome = await take().then(
  () => "taken",
  (error: { code?: string; message?: string }) => `${error.code} ${error.message}`,
);
const growth = process.resourceUsage().maxRSS * 1_024 - idle;
process.stdout.write(JSON.stringify({ growth, outcome }));
process.exit();
