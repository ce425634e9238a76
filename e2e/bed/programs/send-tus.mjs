// Sends a file with tus-js-client, in steps of 1 MiB: send-tus.mjs URL FILE. Prints a line for each step.
import { readFileSync } from "node:fs";
import { Upload } from "tus-js-client";

const [endpoint, path] = process.argv.slice(2);

const content = readFileSync(path);
// of a stream of a file, tus-js-client 4 marks no step as the last one
new Upload(content, {
  endpoint,
  protocol: "ietf-draft-05",
  uploadSize: content.length,
  chunkSize: 1024 * 1024,
  retryDelays: [50, 100, 500, 1_000],
  metadata: { filename: "photo.bin", filetype: "application/octet-stream" },
  onChunkComplete: (size, sent) => console.log(`${sent}`),
  onSuccess: () => console.log("done"),
  onError(error) {
    console.error(error.message);
    process.exitCode = 1;
  },
}).start();
