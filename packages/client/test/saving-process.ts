import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";

// saves one resource a number of times, or for ever, until a signal ends it; with "abort" it
// breaks every save off in the middle first, and then goes on with it
const [url = "", directory = "", connections = "1", times = "Infinity", mode] =
  process.argv.slice(2);
const client = createRawClient(url, withStreaming());
process.stdout.write("ready\n");
for (let saved = 0; saved < Number(times); saved++) {
  if (mode === "abort") await saveUpTo(1_000_000);
  await saveUpTo(Number.POSITIVE_INFINITY);
  process.stdout.write("saved\n");
}
process.exit();

async function saveUpTo(maxBytes: number): Promise<void> {
  const abort = new AbortController();
  const onProgress = ({ bytes }: { bytes: number }): void => {
    if (bytes > maxBytes) abort.abort();
  };
  try {
    const stream = await streamResource(client, "x://a/b.bin", { signal: abort.signal });
    const options = { connections: Number(connections), resume: true, onProgress };
    await stream.saveTo(directory, options);
  } catch (error) {
    if (!abort.signal.aborted || error !== abort.signal.reason) throw error;
  }
}
