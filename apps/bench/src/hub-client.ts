/** Downloads a file with huggingface.js, as its README does: `node hub-client.js HUB FILE PATH`. */
import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { downloadFile } from "@huggingface/hub";
import { reportWork } from "./lib/report-work.ts";

const [hubUrl = "", file = "", path = ""] = process.argv.slice(2);

await reportWork(async () => {
  const blob = await downloadFile({ repo: "bench/model", path: file, hubUrl });
  if (blob === null) throw new Error("bench: the hub has no such file");
  await pipeline(Readable.fromWeb(blob.stream() as never), createWriteStream(path));
  return blob.size;
});
// connections that are kept alive would keep the process
process.exit();
