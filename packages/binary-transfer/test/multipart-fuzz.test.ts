import { SluiceError } from "@sluice/core";
import { createSha256 } from "@sluice/core/internal";
import { openBinary } from "@sluice/binary-transfer/client";
import {
  createBinaryPeer,
  readJsonPart,
  readMultipart,
  receiveParts,
} from "@sluice/binary-transfer/internal";
import { expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";

const count = process.env["SLUICE_DEEP"] ? 1_000_000 : 1_000;

// every part has its own bytes, and mutations add none of them
const firstBytes = [0x80, 0x90, 0xa0];
const contents = firstBytes.map((first) =>
  String.fromCharCode(...Array.from({ length: 40 }, (_, at) => first + (at % 16))),
);
const checksums = contents.map((content) => {
  const hash = createSha256();
  hash.update(Buffer.from(content, "latin1"));
  return hash.digest();
});
// too far apart for one to become another by accident
const idOf = (at: number): string =>
  "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replaceAll("x", String(at));

function messageOf(isCounted: boolean): string {
  const refs = contents.map((content, at) => ({
    uri: `x:${at}`,
    blob: "",
    binaryRef: {
      streamId: idOf(at),
      size: content.length,
      // the last one has nothing but its length
      ...(at < 2 && { checksum: checksums[at] }),
    },
  }));
  const json = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { contents: refs } });
  const parts = contents.map((content, at) => {
    const length = isCounted ? `\r\nContent-Length: ${content.length}` : "";
    return `\r\n--b0undary\r\nContent-ID: <${idOf(at)}>${length}\r\n\r\n${content}`;
  });
  return `--b0undary\r\nContent-Type: application/json\r\n\r\n${json}${parts.join("")}\r\n--b0undary--\r\n`;
}

type Random = (below: number) => number;

const mutations: readonly ((text: string, random: Random) => string)[] = [
  (text, random) => splice(text, random(text.length), 1, String.fromCharCode(random(0x80))),
  (text, random) => splice(text, random(text.length), random(9), ""),
  (text, random) => text.slice(0, random(text.length)),
  (text, random) => splice(text, random(text.length), 0, "\r\n--b0undary"),
  (text, random) => splice(text, random(text.length), 0, "\r\n--b0undary--"),
  (text, random) => splice(text, random(text.length), 0, "\r\n"),
  (text, random) => splice(text, random(text.length), 0, "x".repeat(random(6_000))),
  (text, random) => text.replace(/Content-Length: \d+/, `Content-Length: ${random(200)}`),
  (text, random) => text.replace(/"size":\d+/, `"size":${random(90)}`),
  // in the JSON alone, which then announces one twice
  (text, random) => {
    const end = text.indexOf("]}}");
    const json = text.slice(0, Math.max(0, end)).replace(idOf(random(3)), idOf(random(3)));
    return json + text.slice(Math.max(0, end));
  },
  (text, random) => {
    const from = random(text.length);
    const copy = text.slice(from, from + random(60)).replace(/[^\0-\x7f]/g, "x");
    return splice(text, random(text.length), 0, copy);
  },
];

function splice(text: string, at: number, removed: number, added: string): string {
  return text.slice(0, at) + added + text.slice(at + removed);
}

function inPieces(text: string, random: Random): () => Promise<Uint8Array | undefined> {
  const bytes = Buffer.from(text, "latin1");
  const most = 1 + random(400);
  let at = 0;
  return async () => {
    if (at >= bytes.length) return undefined;
    const piece = bytes.subarray(at, at + 1 + random(most));
    at += piece.length;
    return piece;
  };
}

/** The bytes of a message for an application that reads everything. */
async function take(text: string, random: Random): Promise<unknown[]> {
  const capabilities = { binaryTransfer: { supported: true, supportedModes: ["multipart"] } };
  const peer = createBinaryPeer({
    role: "client",
    mode: "multipart",
    maxBinaryBytes: 100,
    declared: capabilities,
  });
  const faults: unknown[] = [];
  try {
    const reader = readMultipart(inPieces(text, random), "b0undary");
    const json: unknown = JSON.parse(await readJsonPart(reader, 10_000));
    const { message, refs } = peer.received(json as object);
    const { result } = message as { result?: { contents?: unknown } };
    const received: unknown[] = Array.isArray(result?.contents) ? result.contents : [];
    const reading = received.map((content) => readOne(content, faults));
    await receiveParts(reader, { inbox: peer.inbox, refs });
    // every stream ends with the message that announced it
    await Promise.all(reading);
  } catch (error) {
    faults.push(error);
  } finally {
    peer.close(new SluiceError("interrupted", "over"));
  }
  return faults;
}

async function readOne(content: unknown, faults: unknown[]): Promise<void> {
  if (typeof content !== "object" || content === null) return;
  const { uri } = content as { uri?: unknown };
  const at = Number(/^x:([012])$/.exec(String(uri))?.[1] ?? NaN);
  try {
    const opened = openBinary(content);
    if (!opened || opened.transferMode !== "binary") return;
    let text = "";
    for await (const chunk of opened.body as unknown as AsyncIterable<Uint8Array>)
      text += Buffer.from(chunk).toString("latin1");
    const { binaryRef } = content as { binaryRef?: { streamId: string } };
    ensureOwn(text, binaryRef?.streamId ?? "", at);
    if (opened.sha256 !== undefined && !checksums.includes(opened.sha256)) return;
    if (opened.sha256 !== undefined && contents[checksums.indexOf(opened.sha256)] !== text)
      throw new Error(`a stream ended well with other bytes: ${JSON.stringify(text)}`);
  } catch (error) {
    faults.push(error);
  }
}

/** Throws when a stream brought bytes of another one. */
function ensureOwn(text: string, streamId: string, at: number): void {
  const own = [0, 1, 2].find((each) => idOf(each) === streamId) ?? at;
  for (const char of text) {
    const stream = firstBytes.indexOf(char.charCodeAt(0) & 0xf0);
    if (stream >= 0 && stream !== own) throw new Error(`stream ${own} has bytes of ${stream}`);
  }
}

test(
  "a message that is not what was sent has named errors, ends, and mixes no streams",
  { tags: "slow", timeout: 3_600_000 },
  async () => {
    const random = randomNumbers(7);
    const texts = [messageOf(true), messageOf(false)];
    let refused = 0;
    for (let run = 0; run < count; run += 1) {
      let text = texts[run % 2]!;
      for (let times = random(3); times >= 0; times -= 1)
        text = mutations[random(mutations.length)]!(text, random);
      const faults = await take(text, random);
      for (const fault of faults)
        if (!SluiceError.is(fault) && !(fault instanceof SyntaxError))
          throw new Error(`run ${run}`, { cause: fault });
      if (faults.length > 0) refused += 1;
    }
    // the mutations do reach the rules
    expect(refused).toBeGreaterThan(count / 4);
  },
);

test("negative control: an unaltered message is read without a fault", async () => {
  const random = randomNumbers(8);
  for (const text of [messageOf(true), messageOf(false)])
    expect(await take(text, random)).toEqual([]);
});
