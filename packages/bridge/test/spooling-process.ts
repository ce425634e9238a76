// Spools one answer with a long string that is made while it is read, and tells what that cost.
// Arguments: framing, kind of the string, bytes of the file, and `keep` for a reader that keeps everything.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SpooledString } from "@sluice/bridge";
import { openSpoolFolder, spooledFetch } from "@sluice/bridge/internal";
import { spooledLines } from "../src/spool/json-spooler.ts";

/** What a run tells. */
export interface SpoolingCost {
  /** Growth of the resident memory over what it was when idle. */
  readonly grownBytes: number;
  readonly givenBytes: number;
  readonly fileBytes: number;
  readonly isSame: boolean;
  readonly milliseconds: number;
}

const [framing, kind, size, mode] = process.argv.slice(2) as [string, string, string, string?];
const fileBytes = Number(size);
const mib = 2 ** 20;
const expected = createHash("sha256");

const pieceBytes = 48 * 1_024;
/** A piece is a part of it that begins where no piece near it does. */
const pattern = Buffer.alloc(pieceBytes + 256).map((_, index) =>
  kind === "blob" ? (index * 7) % 256 : index % 80 === 0 ? 10 : 97 + (index % 26),
);

/** A piece of the file, and how it is written in JSON. */
function* pieces(): Generator<[Buffer, string]> {
  for (let left = fileBytes, at = 0; left > 0; at += 1) {
    const piece = Buffer.from(pattern.subarray(at % 256, (at % 256) + Math.min(left, pieceBytes)));
    left -= piece.length;
    const written =
      kind === "blob" ? piece.toString("base64") : JSON.stringify(piece.toString()).slice(1, -1);
    yield [piece, written];
  }
}

async function* answer(): AsyncGenerator<Uint8Array> {
  const start = framing === "events" ? "event: message\ndata: " : "";
  const member = kind === "blob" ? "blob" : "text";
  yield Buffer.from(
    `${start}{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"a:b","${member}":"`,
  );
  for (const [piece, written] of pieces()) {
    expected.update(piece);
    yield Buffer.from(written);
  }
  yield Buffer.from(`"}]}}${framing === "document" ? "" : "\n\n"}`);
}

const root = mkdtempSync(join(tmpdir(), "sluice-spooling-"));
const folder = await openSpoolFolder({ folder: root, maxBytes: 2 ** 40, maxAgeMs: 3_600_000 });
const spooled = new Map<string, SpooledString>();
const options = { target: folder, spooled, inlineBytes: 65_536, maxBytes: 2 ** 40 };

async function* spooledBody(): AsyncGenerator<Uint8Array> {
  const type = framing === "events" ? "text/event-stream" : "application/json";
  const headers = { "content-type": type };
  const made = async (): Promise<Response> =>
    new Response(ReadableStream.from(answer()), { headers });
  const response = await spooledFetch(made, options)("http://127.0.0.1/");
  yield* response.body!;
}

function received(): AsyncIterable<Uint8Array> {
  if (mode === "keep") return answer();
  return framing === "lines" ? spooledLines(answer(), options) : spooledBody();
}

const idle = process.memoryUsage.rss();
let peak = idle;
const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 5);
const started = performance.now();
const kept: Uint8Array[] = [];
let givenBytes = 0;
for await (const bytes of received()) {
  if (mode === "keep") kept.push(bytes);
  givenBytes += bytes.length;
}
const milliseconds = Math.round(performance.now() - started);
clearInterval(watch);
peak = Math.max(peak, process.memoryUsage.rss());
const [file] = spooled.values();
const cost: SpoolingCost = {
  grownBytes: peak - idle,
  givenBytes,
  fileBytes: file ? statSync(file.place).size : 0,
  isSame:
    file !== undefined &&
    file.sha256 === expected.digest("hex") &&
    (fileBytes > 16 * mib ||
      createHash("sha256").update(readFileSync(file.place)).digest("hex") === file.sha256),
  milliseconds,
};
rmSync(root, { recursive: true });
process.stdout.write(JSON.stringify(cost));
