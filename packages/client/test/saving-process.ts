import { SluiceError } from "@sluice/client";
import { streamResource, withStreaming } from "@sluice/client/node";
import { createRawClient } from "./raw-client.ts";

// saves one resource so many times, or for ever, until somebody kills the process
const [url = "", directory = "", connections = "1", times = "Infinity"] = process.argv.slice(2);
const client = createRawClient(url, withStreaming());
process.stdout.write("ready\n");
for (let saved = 0; saved < Number(times);) {
  const stream = await streamResource(client, "x://a/b.bin");
  try {
    await stream.saveTo(directory, { connections: Number(connections), resume: true });
  } catch (error) {
    // another process took its part file: it published nothing, and may save again
    if (times !== "Infinity" && SluiceError.is(error) && error.code === "corrupt") continue;
    throw error;
  }
  saved++;
  process.stdout.write("saved\n");
}
process.exit();
