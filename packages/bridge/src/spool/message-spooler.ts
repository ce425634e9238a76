import { ByteQueue, SluiceError, type RpcId } from "@sluice/core";
import { finishMessage, type FoundString } from "./finish-message.ts";
import type { Framing } from "./scan/framing.ts";
import { createMarker, type SpooledStrings, type SpoolTarget } from "./spooled-string.ts";
import { createStringFile } from "./files/string-file.ts";
import { createStringScanner, type ScanStep } from "./scan/string-scanner.ts";
import { MalformedString } from "./scan/unescape.ts";

/** What may be spooled, and where to. */
export interface SpoolLimits {
  /** Where long strings go. */
  readonly target: SpoolTarget;
  /** Where the strings of finished messages are noted. */
  readonly spooled: SpooledStrings;
  /** Longest string that stays in its message, in bytes as it is written between its quotes. */
  readonly inlineBytes: number;
  /** Maximum bytes of all files of one message. */
  readonly maxBytes: number;
  /** Maximum files of one message. Default: 256. */
  readonly maxStrings?: number | undefined;
  /** Maximum bytes of a message without its long strings. Default: 32 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** False: no call of the host waits for this answer, so no file of it is kept. Default: true for every answer. */
  readonly isAwaited?: ((id: RpcId) => boolean) | undefined;
  /** False: no call of the host waits for anything of this stream, so what comes is dropped at once. Default: true. */
  readonly hasReader?: (() => boolean) | undefined;
  /** Ends the work; files of the message under way are removed. */
  readonly signal?: AbortSignal | undefined;
}

/** Takes one message after the other. */
interface MessageSpooler {
  json(bytes: Uint8Array): Promise<void>;
  /** Bytes that are around JSON. */
  frame(bytes: Uint8Array): Promise<void>;
  /** Ends the message and gives it, with its frame. One that is not whole leaves no file. */
  finish(isWhole: boolean): Promise<Uint8Array>;
  /** Removes the files of the message under way. */
  abort(): Promise<void>;
}

/** Makes the spooler of the messages of one stream. */
export function createMessageSpooler(limits: SpoolLimits, framing: Framing): MessageSpooler {
  const { target, spooled, inlineBytes, maxBytes, isAwaited = () => true } = limits;
  const { hasReader = () => true, maxStrings = 256, maxMessageBytes = 32 * 2 ** 20 } = limits;
  const maxDropped = 4 * maxBytes + 16 * 2 ** 20;
  const scanner = createStringScanner(inlineBytes);
  /** The message as it goes on, so far. */
  const inline = new ByteQueue();
  let markers = new Set<string>();
  let files = new Map<string, FoundString>();
  let current: FoundString | undefined;
  /** Bytes of the files that came to their end. */
  let endedBytes = 0;
  /** Files of this message are over: it failed or is malformed. The rest of its long strings is read and dropped. */
  let isGivenUp = false;
  let failure: SluiceError | undefined;
  let droppedBytes = 0;
  let unasked = 0;
  let unaskedSince = -Infinity;

  function pass(bytes: Uint8Array): void {
    inline.push(bytes);
    if (inline.bytes > maxMessageBytes)
      throw tooLarge(`more than ${maxMessageBytes} bytes beside its long strings`);
  }

  async function begin(member: string | undefined, level: number): Promise<void> {
    if (level === 1 && member !== undefined && envelope.has(member))
      throw new SluiceError(
        "protocol",
        `bridge: spool: the server sent a message with a "${member}" of more than ${inlineBytes} bytes; tell its author`,
      );
    const marker = createMarker();
    markers.add(marker);
    // a message of that many never becomes an error in the place of an answer
    if (markers.size > 16 * maxStrings)
      throw failure ?? tooLarge(`more than ${maxStrings} long strings`);
    pass(Buffer.from(marker));
    await unlessGivenUp(async () => {
      if (markers.size > maxStrings) throw tooLarge(`more than ${maxStrings} long strings`);
      const coding = member === "blob" || member === "data" ? "base64" : "text";
      current = { file: await createStringFile(target, coding) };
      files.set(marker, current);
    });
  }

  async function content(bytes: Uint8Array): Promise<void> {
    await unlessGivenUp(async () => {
      await current?.file.write(bytes);
      ensureSize();
      if (!hasReader()) await giveUp();
    });
    if (!isGivenUp) return;
    droppedBytes += bytes.length;
    // no end is in sight, so the message never becomes an error
    if (droppedBytes > maxDropped)
      throw failure ?? tooLarge(`more than ${maxDropped} malformed bytes`);
  }

  async function endString(): Promise<void> {
    await unlessGivenUp(async () => {
      if (!current) return;
      current.facts = await current.file.end();
      ensureSize();
      endedBytes += current.file.bytes;
      current = undefined;
    });
  }

  function ensureSize(): void {
    if (endedBytes + (current?.file.bytes ?? 0) > maxBytes)
      throw tooLarge(`long strings of more than ${maxBytes} bytes`);
  }

  /** Does a step of a string. What goes wrong in it ends all files of the message. */
  async function unlessGivenUp(step: () => Promise<void>): Promise<void> {
    if (isGivenUp) return;
    try {
      await step();
    } catch (error) {
      await giveUp();
      // the parser behind refuses it for these bytes
      if (error instanceof MalformedString) pass(error.written);
      else if (SluiceError.is(error)) failure = error;
      else throw error;
    }
  }

  async function giveUp(): Promise<void> {
    isGivenUp = true;
    current = undefined;
    await Promise.all([...files.values()].map(({ file }) => file.discard()));
    files.clear();
  }

  async function take(steps: readonly ScanStep[]): Promise<void> {
    for (const step of steps)
      if (step.kind === "inline") pass(step.bytes);
      else if (step.kind === "begin") await begin(step.member, step.level);
      else if (step.kind === "content") await content(step.bytes);
      else if (step.kind === "end") await endString();
      else await giveUp();
  }

  async function finishedBytes(isWhole: boolean): Promise<Uint8Array> {
    const bytes = inline.join();
    if (markers.size === 0) return bytes;
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    const parsed = isWhole ? parse(framing.dataOf(text)) : undefined;
    if (!parsed) {
      await giveUp();
      return bytes;
    }
    const strings = { markers, files, failure };
    const rules = { spooled, inlineBytes, isAwaited };
    const { json, leftOut } = await finishMessage(parsed.value, strings, rules);
    countUnasked(leftOut.length);
    if (json === undefined && leftOut.length === 0) return bytes;
    const settledText = json === undefined ? text : framing.withData(text, json);
    return Buffer.from(
      leftOut.reduce((all, marker) => all.replace(marker, leftOutWords), settledText),
    );
  }

  /** A server that keeps on sending what no call asked for keeps this process busy: its stream ends. */
  function countUnasked(strings: number): void {
    if (performance.now() - unaskedSince > 60_000) {
      unasked = 0;
      unaskedSince = performance.now();
    }
    unasked += strings;
    if (unasked > maxUnasked)
      throw new SluiceError(
        "protocol",
        `bridge: spool: the server sent more than ${maxUnasked} long texts in a minute that no call asked for; tell its author`,
      );
  }

  function reset(): void {
    markers = new Set();
    files = new Map();
    current = undefined;
    endedBytes = 0;
    isGivenUp = false;
    failure = undefined;
    droppedBytes = 0;
  }

  return {
    json: (bytes) => take(scanner.scan(bytes)),
    async frame(bytes) {
      await take(scanner.interrupt());
      pass(bytes);
    },
    async finish(isWhole) {
      const { isTooWide } = scanner;
      await take(scanner.finish());
      // as it came: the reader behind refuses it by the same bound
      const bytes = await finishedBytes(isWhole && !isTooWide);
      reset();
      return bytes;
    },
    abort: giveUp,
  };
}

const envelope: ReadonlySet<string> = new Set(["jsonrpc", "id", "method"]);
/** Long texts of one stream that no call waits for, in a minute. */
const maxUnasked = 1_000;
const leftOutWords = "(a long text, left out: no call of the host asked for it)";

function parse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function tooLarge(what: string): SluiceError {
  return new SluiceError(
    "too_large",
    `bridge: spool: the server sent a message with ${what}; ask for less, or raise that limit`,
  );
}
