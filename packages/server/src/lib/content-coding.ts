import type { Readable, Transform } from "node:stream";
import { builtInModule, SluiceError } from "@sluice/core";
import { advised } from "./advice.ts";

/** Codings of one object that are taken off one after the other; more of them are no mistake but an attack. */
const mostCodings = 3;

/** The bytes behind the content codings (RFC 9110 §8.4) that an object is stored with. Ending the iteration cancels the body. */
export function decodeContent(
  body: ReadableStream<Uint8Array>,
  contentEncoding: string | undefined,
): AsyncIterable<Uint8Array> {
  const codings = codingsIn(contentEncoding);
  const decoders = codings.map((coding) => decoderFor(coding, false));
  if (codings.length > mostCodings || decoders.includes(undefined)) throw stillCoded(codings);
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
  const codings = codingsIn(contentEncoding);
  if (codings.length > mostCodings) return undefined;
  for (const coding of codings.toReversed()) {
    const decode = decoderFor(coding, true);
    if (!decode) return undefined;
    bytes = await beginningOf(decode([bytes]), maxBytes);
  }
  return bytes;
}

async function beginningOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number) {
  const head = new Uint8Array(maxBytes);
  let filled = 0;
  try {
    for await (const chunk of chunks) {
      const piece = chunk.subarray(0, maxBytes - filled);
      head.set(piece, filled);
      filled += piece.length;
      if (filled === maxBytes) break;
    }
  } catch {
    // the rest may be missing, or wrong: what came out before counts
  }
  return head.subarray(0, filled);
}

function codingsIn(contentEncoding: string | undefined): string[] {
  const names = (contentEncoding ?? "").toLowerCase().split(",");
  return names.map((name) => name.trim()).filter((name) => name !== "" && name !== "identity");
}

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
type Decode = (bytes: Bytes) => AsyncIterable<Uint8Array>;

/** What takes a coding off here; `undefined` where nothing does. `isCut`: the end may be missing. */
function decoderFor(coding: string, isCut: boolean): Decode | undefined {
  const name = coding.replace(/^x-/, "");
  const zlib = builtInModule("node:zlib") as Partial<typeof import("node:zlib")> | undefined;
  const stream = builtInModule("node:stream") as typeof import("node:stream") | undefined;
  if (zlib && stream) {
    const create = creatorFor(name, zlib, isCut);
    return create && ((bytes) => throughNode(stream, bytes, create()));
  }
  // other runtimes know these two
  if (name !== "gzip" && name !== "deflate") return undefined;
  return (bytes) => throughWeb(bytes, new DecompressionStream(name));
}

function creatorFor(
  name: string,
  zlib: Partial<typeof import("node:zlib")> & ZstdModule,
  isCut: boolean,
): (() => Transform) | undefined {
  const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH } = zlib.constants!;
  const cut = isCut ? { finishFlush: Z_SYNC_FLUSH } : {};
  switch (name) {
    case "gzip":
      return () => zlib.createGunzip!(cut);
    case "deflate":
      return () => zlib.createInflate!(cut);
    case "br":
      return () =>
        zlib.createBrotliDecompress!(isCut ? { finishFlush: BROTLI_OPERATION_FLUSH } : {});
    case "zstd":
      return zlib.createZstdDecompress && (() => zlib.createZstdDecompress!());
    default:
      return undefined;
  }
}

/** In Node.js from 22.15. */
interface ZstdModule {
  readonly createZstdDecompress?: () => Transform;
}

async function* throughNode(
  { pipeline, Readable: Source }: typeof import("node:stream"),
  bytes: Bytes,
  decoder: Transform,
): AsyncGenerator<Uint8Array> {
  const source: Readable = Source.from(bytes, { objectMode: false });
  // leaving the loop destroys both, and with them the body
  yield* pipeline(source, decoder, () => {}) as AsyncIterable<Uint8Array>;
}

async function* throughWeb(bytes: Bytes, pair: DecompressionStream): AsyncGenerator<Uint8Array> {
  const source = ReadableStream.from(bytes as AsyncIterable<Uint8Array<ArrayBuffer>>);
  yield* source.pipeThrough(pair);
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
  const { code, name } = error as NodeJS.ErrnoException;
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
