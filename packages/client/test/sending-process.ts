// Sends one file to `<origin>/up` and prints by how many bytes the memory of this process grew meanwhile.
// `whole`: a twin that wrongly reads the whole file first.
import { readFile } from "node:fs/promises";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import { blobSource } from "../src/upload/source/file-source.ts";
import { pathSource } from "../src/upload/source/path-source.ts";
import { sendFiles } from "../src/upload/send/send-files.ts";
import { sendTimeouts, createSender } from "../src/upload/send/sender.ts";
import { ClientSession, acceptTarget } from "../src/upload/upload-target.ts";

const [origin = "", path = "", wire = "resumable", how = ""] = process.argv.slice(2);
const sender = createSender(createHttpExchange());
const trust = { session: new ClientSession(new URL(`${origin}/mcp`)), trustedOrigins: [] };
const { signal } = new AbortController();

async function send(file: string): Promise<void> {
  const source =
    how === "whole"
      ? blobSource(new Blob([await readFile(file)]), {
          name: "a",
          mimeType: "text/plain",
          isTypeGuessed: false,
        })
      : await pathSource({ path: file });
  const claim = {
    url: `${origin}/up`,
    method: "POST",
    wire: wire as "raw",
    auth: "self",
    sessionBound: false,
  } as const;
  const target = acceptTarget(claim, trust);
  const onSent = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()));
  await sendFiles(
    { sources: [source], target, signal, onSent },
    { sender, trust, timeouts: sendTimeouts },
  );
}

let peak = 0;
// what a first file takes is there to stay, whatever its size
await send(process.argv[1]!);
const before = process.memoryUsage.rss();
peak = before;
await send(path);
process.stdout.write(`${peak - before}\n`);
process.exit();
