/**
 * Sends one file in steps, then tells what that took: `node upload-client.js tus|tus-ietf|sluice URL PATH STEP-BYTES`.
 * `tus` speaks tus 1.0, `tus-ietf` the draft of the IETF with the same client, `sluice` is Sluice's own.
 */
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { createFileSender } from "@sluice/client/send";
import { UPLOADS_EXTENSION_ID } from "@sluice/core/internal";
import { Upload } from "tus-js-client";
import { reportWork } from "../lib/program.ts";

const [way = "", url = "", path = "", stepBytes = "0"] = process.argv.slice(2);
const { size } = await stat(path);

async function sendWithTus(): Promise<number> {
  // over a file it never tells in the draft of the IETF which step is the last (4.3.1)
  const source = way === "tus" ? createReadStream(path) : await readFile(path);
  return new Promise((resolve, reject) => {
    const options = {
      endpoint: url,
      // its types do not know the option
      protocol: way === "tus" ? "tus-v1" : "ietf-draft-05",
      uploadSize: size,
      chunkSize: Number(stepBytes),
      onSuccess: () => resolve(size),
      onError: reject,
    };
    new Upload(source, options).start();
  });
}

async function sendWithSluice(): Promise<number> {
  const sender = createFileSender({
    endpoint: url,
    onFilesRequested: () => Promise.reject(new Error("bench: no file was asked for")),
    maxFileBytes: 16 * 2 ** 30,
  });
  const authorized = {
    file: { uri: "upload://bench" },
    upload: {
      transport: "https",
      method: "POST",
      url,
      _meta: { [UPLOADS_EXTENSION_ID]: { wire: "resumable", auth: "self" } },
    },
  };
  const sent = await sender.upload({ request: async () => authorized }, path);
  if (sent.name !== basename(path)) throw new Error("bench: another file was sent");
  return size;
}

await reportWork(way === "sluice" ? sendWithSluice : sendWithTus);
// connections that are kept alive would keep the process
process.exit();
