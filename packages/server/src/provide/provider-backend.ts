import { SluiceError, type ByteRange } from "@sluice/core";
import { definedMembers, nextTurn, unpromisedFormat } from "@sluice/core/internal";
import {
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type OpenedObject,
  type OpenOptions,
  type StorageBackend,
} from "@sluice/storage";
import { withValidation } from "@sluice/storage/internal";
import {
  createBytesBody,
  ensureCondition,
  listPage,
  resolveRange,
  createBody,
} from "@sluice/storage/plugin";
import { beginCall, type ProviderCall, type ProviderUse } from "./provider-call.ts";
import type { Provider } from "./provider.ts";
import type { ProvidedSource } from "./stream-source.ts";

/**
 * A provider as storage of one principal, behind `withValidation`. A resource has an etag, and parts of it can be opened, where
 * the provider tells size and version and can rewind; other ranges are `unsupported`. It lists the one resource of an exact
 * URI, and nothing of a template.
 *
 * `open` rejects with a `RedirectError` if the provider gives a URL. Errors of the provider pass as they are.
 */
export function createProviderBackend(use: ProviderUse): StorageBackend {
  const backend: StorageBackend = {
    name: "provider",
    async describe(key, options) {
      const call = beginCall(use, { method: "describe", key }, options);
      try {
        return await call.describe();
      } finally {
        call.end();
      }
    },
    async open(key, options = {}) {
      const call = beginCall(use, { method: "open", key }, options);
      try {
        return await openResource(use.provider, call, options);
      } catch (error) {
        call.end(error);
        throw error;
      }
    },
    list: async (options) => listResource(use, options),
  };
  // each wait has its deadline here: what a rewind leaves out takes longer than any chunk
  return withValidation(backend, { idleMs: Infinity });
}

async function openResource(
  provider: Provider,
  call: ProviderCall,
  { range, ifMatch, signal }: OpenOptions,
): Promise<OpenedObject> {
  const { operation } = call;
  const described = await call.describe();
  ensureCondition(described, { ifMatch }, operation);
  const part = range && resolvePart(described, range, operation);
  ensureRoom(provider, described, part, operation);
  if (part && part.start === part.end) {
    call.end();
    return { info: described, range: part, body: createBytesBody(new Uint8Array(), signal) };
  }
  const start = part?.start ?? 0;
  const source = await call.open(described, start);
  try {
    const info = withLearned(described, source, operation);
    ensureRoom(provider, info, part, operation);
    if (source.start > start)
      throw new SluiceError("corrupt", `${operation}: the bytes begin at ${source.start}`);
    const body = createTransferBody(source, call, {
      skip: start - source.start,
      // at the end of the whole it shows that there is no more
      take: part && part.end !== info.size ? part.end - part.start : Infinity,
      maxBytes: provider.maxBytes ?? Infinity,
      verify: () => ensureUnchanged(info, call),
      signal,
    });
    return { info, ...definedMembers({ range: part }), body };
  } catch (error) {
    source.release(error);
    throw error;
  }
}

/** The range within the resource. `unsupported` where nothing tells that another part will be of the same version. */
function resolvePart(
  { size, etag }: ObjectInfo,
  range: ByteRange,
  operation: string,
): Required<ByteRange> {
  if (size === undefined || etag === undefined)
    throw new SluiceError(
      "unsupported",
      `${operation}: no parts of it can be made; give the provider rewind, and describe size and version`,
    );
  return resolveRange(range, size, operation);
}

/** Throws `too_large` if the response is known to be larger than the provider may give. */
function ensureRoom(
  { maxBytes = Infinity }: Provider,
  { size }: ObjectInfo,
  part: Required<ByteRange> | undefined,
  operation: string,
): void {
  const bytes = part ? part.end - part.start : size;
  if (bytes === undefined || bytes <= maxBytes) return;
  throw new SluiceError(
    "too_large",
    `${operation}: ${bytes} bytes are more than the ${maxBytes} that the provider may give`,
    definedMembers({ size }),
  );
}

/** What is known of the resource, and what its bytes told beside that. */
function withLearned(described: ObjectInfo, source: ProvidedSource, operation: string): ObjectInfo {
  const { size = source.size, contentType = source.contentType } = described;
  if (source.size !== undefined && size !== source.size)
    throw new SluiceError(
      "corrupt",
      `${operation}: ${source.size} bytes came where ${size} were described`,
    );
  const format = unpromisedFormat(source.contentType, described.contentType);
  // a length that was described vouches for the bytes, however the other server labels them
  if (format && (source.size === undefined || described.size === undefined))
    throw new SluiceError(
      "unavailable",
      `${operation}: ${format} came in place of the described type, which is probably the text of an error`,
    );
  if (source.needsSize && size === undefined)
    throw new SluiceError(
      "protocol",
      `${operation}: the other server does not mark where its response ends; describe the size`,
    );
  return { ...described, ...definedMembers({ size, contentType }) };
}

/** Throws `precondition_failed` if the resource has another version than before its bytes were made. */
async function ensureUnchanged({ etag }: ObjectInfo, call: ProviderCall): Promise<void> {
  if (etag !== undefined) ensureCondition(await call.describe(), { ifMatch: etag }, call.operation);
}

function listResource(
  { provider, route }: ProviderUse,
  options: ListOptions = {},
): Promise<ListPage> {
  const { mapper, uri } = route;
  const key = uri === undefined ? undefined : mapper.toKey(uri);
  const page = { operation: "provider: list", store: uri ?? route.template ?? "" };
  return listPage(options, page, ({ prefix }) => {
    if (key === undefined || !key.startsWith(prefix)) return { objects: [] };
    const { mimeType: contentType } = provider;
    // describe may tell another type, and a response its own
    return { objects: [{ key, ...definedMembers({ contentType }) }], untyped: true };
  });
}

/** After this many bytes other work of the process gets a turn: a generator that waits for nothing would leave none. */
const bytesBetweenTurns = 2 ** 20;
/** The minimum that a chunk counts. */
const minCounted = 4_096;

interface TransferOptions {
  /** Bytes that are left out at the start. */
  readonly skip: number;
  /** Bytes that are given; then the source is not read on. `Infinity`: to its end. */
  readonly take: number;
  /** More bytes are `too_large`. */
  readonly maxBytes: number;
  /** Called after the last byte, before the body ends. What it throws is the body's error. */
  readonly verify: () => Promise<void>;
  readonly signal: AbortSignal | undefined;
}

/** The bytes of a source as a body. It ends the call and the source with itself: at its end, an error, a cancel or an abort. */
function createTransferBody(
  source: ProvidedSource,
  call: ProviderCall,
  { skip, take, maxBytes, verify, signal }: TransferOptions,
): ReadableStream<Uint8Array> {
  let toSkip = skip;
  let left = take;
  let room = maxBytes;
  let sinceTurn = 0;

  /** The part of a chunk that lies in what is given. */
  function cut(chunk: Uint8Array): Uint8Array {
    const from = Math.min(toSkip, chunk.byteLength);
    const part = chunk.subarray(from, Math.min(chunk.byteLength, from + left));
    toSkip -= from;
    left -= part.byteLength;
    room -= part.byteLength;
    return part;
  }

  return createBody({
    async next() {
      while (left > 0) {
        const chunk = await call.wait(source.next());
        if (!chunk) break;
        sinceTurn += Math.max(chunk.byteLength, minCounted);
        if (sinceTurn >= bytesBetweenTurns) {
          sinceTurn = 0;
          await nextTurn();
        }
        const part = cut(chunk);
        if (room < 0)
          throw new SluiceError(
            "too_large",
            `${call.operation}: more than the ${maxBytes} bytes that the provider may give`,
          );
        if (part.byteLength > 0) return part;
      }
      await verify();
      return undefined;
    },
    release(reason) {
      call.end(reason);
      source.release(reason);
    },
    signal,
  });
}
