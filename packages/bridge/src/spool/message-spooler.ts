import { SluiceError } from "@sluice/core";
import { ByteQueue, type RpcId } from "@sluice/core/internal";
import { finishMessage, type FoundString } from "./finish-message.ts";
import type { Framing } from "./scan/framing.ts";
import { newMarker, type SpooledStrings, type SpoolTarget } from "./spooled-string.ts";
import { beginStringFile } from "./files/string-file.ts";
import { StringScanner, type ScanStep } from "./scan/string-scanner.ts";
import { MalformedString } from "./scan/unescape.ts";

/** What may be spooled, and where to. */
export interface SpoolLimits {
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
  /** False: no call of the host waits for this response, so no file of it is kept. Default: true for every response. */
  readonly isAwaited?: ((id: RpcId) => boolean) | undefined;
  /** False: no call of the host waits for anything of this stream, so what comes is dropped at once. Default: true. */
  readonly hasReader?: (() => boolean) | undefined;
  /** Ends the work; files of the message under way are removed. */
  readonly signal?: AbortSignal | undefined;
}

/** Spools the messages of one stream: takes one after the other. */
export class MessageSpooler {
  readonly #limits: SpoolLimits;
  readonly #framing: Framing;
  readonly #isAwaited: (id: RpcId) => boolean;
  readonly #hasReader: () => boolean;
  readonly #maxStrings: number;
  readonly #maxMessageBytes: number;
  readonly #maxDropped: number;
  readonly #scanner: StringScanner;
  /** The message as it goes on, so far. */
  readonly #inline = new ByteQueue();
  #markers = new Set<string>();
  #files = new Map<string, FoundString>();
  #current: FoundString | undefined;
  /** Bytes of the files that came to their end. */
  #endedBytes = 0;
  /** Files of this message are over: it failed or is malformed. The rest of its long strings is read and dropped. */
  #isGivenUp = false;
  #failure: SluiceError | undefined;
  #droppedBytes = 0;
  #unasked = 0;
  #unaskedSince = -Infinity;

  constructor(limits: SpoolLimits, framing: Framing) {
    this.#limits = limits;
    this.#framing = framing;
    const { inlineBytes, maxBytes, isAwaited = () => true } = limits;
    this.#isAwaited = isAwaited;
    const { hasReader = () => true, maxStrings = 256, maxMessageBytes = 32 * 2 ** 20 } = limits;
    this.#hasReader = hasReader;
    this.#maxStrings = maxStrings;
    this.#maxMessageBytes = maxMessageBytes;
    this.#maxDropped = 4 * maxBytes + 16 * 2 ** 20;
    this.#scanner = new StringScanner(inlineBytes);
  }

  json(bytes: Uint8Array): Promise<void> {
    return this.#take(this.#scanner.scan(bytes));
  }

  /** Bytes that are around JSON. */
  async frame(bytes: Uint8Array): Promise<void> {
    await this.#take(this.#scanner.interrupt());
    this.#pass(bytes);
  }

  /** Ends the message and gives it, with its frame. One that is not whole leaves no file. */
  async finish(isWhole: boolean): Promise<Uint8Array> {
    const { isTooWide } = this.#scanner;
    await this.#take(this.#scanner.finish());
    // as it came: the reader behind refuses it by the same bound
    const bytes = await this.#finishedBytes(isWhole && !isTooWide);
    this.#reset();
    return bytes;
  }

  /** Removes the files of the message in progress. */
  async abort(): Promise<void> {
    this.#isGivenUp = true;
    this.#current = undefined;
    await Promise.all([...this.#files.values()].map(({ file }) => file.discard()));
    this.#files.clear();
  }

  #pass(bytes: Uint8Array): void {
    this.#inline.push(bytes);
    if (this.#inline.bytes > this.#maxMessageBytes)
      throw tooLarge(`more than ${this.#maxMessageBytes} bytes beside its long strings`);
  }

  async #begin({ member, level, isData }: ScanStep & { readonly kind: "begin" }): Promise<void> {
    if (level === 1 && member !== undefined && envelope.has(member))
      throw new SluiceError(
        "protocol",
        `bridge: spool: the server sent a message with a "${member}" of more than ${this.#limits.inlineBytes} bytes; tell its author`,
      );
    const marker = newMarker();
    this.#markers.add(marker);
    // a message of that many never becomes an error in the place of a response
    if (this.#markers.size > 16 * this.#maxStrings)
      throw this.#failure ?? tooLarge(`more than ${this.#maxStrings} long strings`);
    this.#pass(Buffer.from(marker));
    await this.#unlessGivenUp(async () => {
      if (this.#markers.size > this.#maxStrings)
        throw tooLarge(`more than ${this.#maxStrings} long strings`);
      const coding = member === "blob" || member === "data" ? "base64" : "text";
      this.#current = { file: await beginStringFile(this.#limits.target, coding, !isData) };
      this.#files.set(marker, this.#current);
    });
  }

  async #content(bytes: Uint8Array): Promise<void> {
    await this.#unlessGivenUp(async () => {
      await this.#current?.file.write(bytes);
      this.#ensureSize();
      if (!this.#hasReader()) await this.abort();
    });
    if (!this.#isGivenUp) return;
    this.#droppedBytes += bytes.length;
    // no end is in sight, so the message never becomes an error
    if (this.#droppedBytes > this.#maxDropped)
      throw this.#failure ?? tooLarge(`more than ${this.#maxDropped} malformed bytes`);
  }

  async #endString(): Promise<void> {
    await this.#unlessGivenUp(async () => {
      if (!this.#current) return;
      this.#current.facts = await this.#current.file.end();
      this.#ensureSize();
      this.#endedBytes += this.#current.file.bytes;
      this.#current = undefined;
    });
  }

  #ensureSize(): void {
    if (this.#endedBytes + (this.#current?.file.bytes ?? 0) > this.#limits.maxBytes)
      throw tooLarge(`long strings of more than ${this.#limits.maxBytes} bytes`);
  }

  /** Does a step of a string. What goes wrong in it ends all files of the message. */
  async #unlessGivenUp(step: () => Promise<void>): Promise<void> {
    if (this.#isGivenUp) return;
    try {
      await step();
    } catch (error) {
      await this.abort();
      // the parser behind refuses it for these bytes
      if (error instanceof MalformedString) this.#pass(error.written);
      else if (SluiceError.is(error)) this.#failure = error;
      else throw error;
    }
  }

  async #take(steps: readonly ScanStep[]): Promise<void> {
    for (const step of steps)
      if (step.kind === "inline") this.#pass(step.bytes);
      else if (step.kind === "begin") await this.#begin(step);
      else if (step.kind === "content") await this.#content(step.bytes);
      else if (step.kind === "end") await this.#endString();
      else await this.abort();
  }

  async #finishedBytes(isWhole: boolean): Promise<Uint8Array> {
    const bytes = this.#inline.join();
    if (this.#markers.size === 0) return bytes;
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    const parsed = isWhole ? parse(this.#framing.dataOf(text)) : undefined;
    if (!parsed) {
      await this.abort();
      return bytes;
    }
    const strings = { markers: this.#markers, files: this.#files, failure: this.#failure };
    const rules = {
      spooled: this.#limits.spooled,
      inlineBytes: this.#limits.inlineBytes,
      isAwaited: this.#isAwaited,
    };
    const { json, leftOut } = await finishMessage(parsed.value, strings, rules);
    this.#countUnasked(leftOut.length);
    if (json === undefined && leftOut.length === 0) return bytes;
    const settledText = json === undefined ? text : this.#framing.withData(text, json);
    return Buffer.from(
      leftOut.reduce((all, marker) => all.replace(marker, leftOutWords), settledText),
    );
  }

  /** A server that keeps on sending what no call asked for keeps this process busy: its stream ends. */
  #countUnasked(strings: number): void {
    if (performance.now() - this.#unaskedSince > 60_000) {
      this.#unasked = 0;
      this.#unaskedSince = performance.now();
    }
    this.#unasked += strings;
    if (this.#unasked > maxUnasked)
      throw new SluiceError(
        "protocol",
        `bridge: spool: the server sent more than ${maxUnasked} long texts in a minute that no call asked for; tell its author`,
      );
  }

  #reset(): void {
    this.#markers = new Set();
    this.#files = new Map();
    this.#current = undefined;
    this.#endedBytes = 0;
    this.#isGivenUp = false;
    this.#failure = undefined;
    this.#droppedBytes = 0;
  }
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
