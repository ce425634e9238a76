import { SluiceError } from "@sluice/core";
import { builtInModule, contentCodings } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { advised } from "../faults/advice.ts";

/** Codings of one object that are taken off one after the other; more of them are not a mistake but an attack. */
const maxCodings = 3;

/** Maximum bytes of the beginning after one coding. */
const maxLayerBytes = 64 * 1024;

/** Whether an object is stored with a content coding that changes its bytes. */
export function isCoded({ contentEncoding }: ObjectInfo): boolean {
  return contentCodings(contentEncoding).length > 0;
}

/** The bytes behind the content codings (RFC 9110 §8.4) that an object is stored with. Ending the iteration cancels the body. */
export function decodeContent(
  body: ReadableStream<Uint8Array>,
  contentEncoding: string | undefined,
): AsyncIterable<Uint8Array> {
  const codings = contentCodings(contentEncoding);
  const decoders = codings.map((coding) => decoderFor(coding, false));
  if (codings.length > maxCodings || decoders.includes(undefined)) throw stillCoded(codings);
  return decoders.reduceRight<AsyncIterable<Uint8Array>>(
    (bytes, decode) => translated(decode!(bytes), codings),
    body,
  );
}

/** The same for the beginning of the stored bytes: as many as come out of it. `undefined` for a coding that is not known. */
export async function decodeHead(
  head: Uint8Array,
  contentEncoding: string | undefined,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  let bytes = head;
  const codings = contentCodings(contentEncoding);
  if (codings.length > maxCodings) return undefined;
  for (const coding of codings.toReversed()) {
    const decode = decoderFor(coding, true);
    if (!decode) return undefined;
    bytes = await beginningOf(decode([bytes]), maxLayerBytes);
  }
  return bytes.subarray(0, maxBytes);
}

async function beginningOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number) {
  const head = new Uint8Array(maxBytes);
  let filledBytes = 0;
  try {
    for await (const chunk of chunks) {
      const piece = chunk.subarray(0, maxBytes - filledBytes);
      head.set(piece, filledBytes);
      filledBytes += piece.length;
      if (filledBytes === maxBytes) break;
    }
  } catch {
    // the rest may be missing, or wrong: what came out before counts
  }
  return head.subarray(0, filledBytes);
}

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
type Decode = (bytes: Bytes) => AsyncIterable<Uint8Array>;
type CreateDecoder = (options: object) => AsyncIterable<Uint8Array>;

interface NodeZlib {
  readonly constants: Readonly<Record<string, number>>;
  readonly createGunzip: CreateDecoder;
  readonly createInflate: CreateDecoder;
  readonly createBrotliDecompress: CreateDecoder;
  /** In Node.js from 22.15. */
  readonly createZstdDecompress?: CreateDecoder;
}

interface NodeStream {
  readonly Readable: {
    readonly from: (bytes: Bytes, options: object) => AsyncIterable<Uint8Array>;
  };
  readonly pipeline: (
    source: AsyncIterable<Uint8Array>,
    decoder: AsyncIterable<Uint8Array>,
    done: () => void,
  ) => AsyncIterable<Uint8Array>;
}

/** What takes a coding off here; `undefined` if nothing does. `isCut`: the end may be missing. */
function decoderFor(coding: string, isCut: boolean): Decode | undefined {
  const name = coding.startsWith("x-") ? coding.slice(2) : coding;
  const zlib = builtInModule("node:zlib") as NodeZlib | undefined;
  const stream = builtInModule("node:stream") as NodeStream | undefined;
  if (zlib && stream) {
    const creator = creators[name];
    const create = creator && zlib[creator];
    if (!create) return undefined;
    const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } = zlib.constants;
    const flush = { br: BROTLI_OPERATION_FLUSH, zstd: ZSTD_e_flush }[name] ?? Z_SYNC_FLUSH;
    return (bytes) => throughNode(stream, bytes, create(isCut ? { finishFlush: flush } : {}));
  }
  // other runtimes support these two
  if (name !== "gzip" && name !== "deflate") return undefined;
  return (bytes) => throughWeb(bytes, new DecompressionStream(name));
}

const creators: Readonly<Record<string, Exclude<keyof NodeZlib, "constants">>> = {
  gzip: "createGunzip",
  deflate: "createInflate",
  br: "createBrotliDecompress",
  zstd: "createZstdDecompress",
};

async function* throughNode(
  { pipeline, Readable }: NodeStream,
  bytes: Bytes,
  decoder: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  // leaving the loop destroys both, and with them the body
  yield* pipeline(Readable.from(bytes, { objectMode: false }), decoder, () => {});
}

async function* throughWeb(
  bytes: Bytes,
  { readable, writable }: DecompressionStream,
): AsyncGenerator<Uint8Array> {
  const writer = writable.getWriter();
  async function feed(): Promise<void> {
    // a write that fails ends the loop, which cancels the body
    for await (const chunk of bytes) await writer.write(chunk);
    await writer.close();
  }
  feed().catch((error: unknown) => writer.abort(error).catch(() => {}));
  try {
    yield* readable;
  } finally {
    await writer.abort().catch(() => {});
  }
}

/** What a decoder throws is about the content; faults of storage stay what they are. */
async function* translated(
  bytes: AsyncIterable<Uint8Array>,
  codings: readonly string[],
): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes;
  } catch (error) {
    if (SluiceError.is(error) || !isCodingFault(error)) throw error;
    const names = codings.join(", ");
    throw advised(
      "invalid_argument",
      `The resource is not the ${names} that it is stored as: use resources/stream`,
      error,
    );
  }
}

function isCodingFault(error: unknown): boolean {
  const { code, name } = error as Error & { readonly code?: string };
  return (
    name === "TypeError" || /^(?:Z_|ERR__ERROR_|ERR_.*BROTLI|ERR_PADDING|ZSTD_)/.test(code ?? "")
  );
}

function stillCoded(codings: readonly string[]): SluiceError {
  const names = codings
    .join(", ")
    .slice(0, 40)
    .replace(/[^\w., -]/g, "?");
  return advised("invalid_argument", `The resource is stored as ${names}: use resources/stream`);
}
