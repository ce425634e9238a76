import { SluiceError } from "@sluice/core";
import { formatEntityTag } from "@sluice/core/internal";
import { mediaFormatOf } from "../content/media-signature.ts";
import { readHead } from "../content/content-head.ts";
import { findEncoding } from "../content/text-encoding.ts";
import type { AuthorizedStorage } from "../storage/authorized-storage.ts";
import { noLinesFault, readPart, type PartRequest, type ResourcePart } from "./read-part.ts";

/** Maximum bytes of a picture or of sound: 3.75 MiB in base64, which every host takes. */
const maxMediaBytes = 3.75 * 2 ** 20 * 0.75;

/**
 * Reads a part for a model: text of every encoding that is named or can be seen, and a picture or sound whole, as far as it
 * is asked for from its start.
 */
export async function readForModel(
  storage: AuthorizedStorage,
  request: PartRequest,
): Promise<ResourcePart> {
  if (request.encoding !== undefined) return readPart(storage, request);
  const strict = await readStrictly(storage, request);
  if (strict?.text !== undefined) return strict;
  const encoding = await encodingOf(storage, request, strict);
  if (encoding !== undefined) return readPart(storage, { ...request, encoding });
  if (!strict) throw noLinesFault;
  return readMedia(storage, request, strict);
}

/** `undefined` if lines were asked for and the content is not UTF-8. */
function readStrictly(
  storage: AuthorizedStorage,
  request: PartRequest,
): Promise<ResourcePart | undefined> {
  return readPart(storage, request).catch((error: unknown) => {
    if (error === noLinesFault) return undefined;
    throw error;
  });
}

async function encodingOf(
  storage: AuthorizedStorage,
  { key, range, signal }: PartRequest,
  strict: ResourcePart | undefined,
): Promise<string | undefined> {
  if (strict && range?.first === 0) return findEncoding(strict.info, strict.bytes);
  const options = signal ? { signal } : {};
  const info = strict?.info ?? (await storage.describe(key, options));
  const head = await readHead(storage, key, { info, options });
  return head && findEncoding(info, head);
}

/** The same part with all bytes of the picture or the sound that it is the beginning of. */
async function readMedia(
  storage: AuthorizedStorage,
  request: PartRequest,
  part: ResourcePart,
): Promise<ResourcePart> {
  const { info, bytes, mimeType } = part;
  const { range, ...others } = request;
  const media = mediaFormatOf(mimeType, bytes);
  const isWanted = range?.first === 0 && range.last === undefined;
  if (!media || !isWanted || (info.size ?? 0) > maxMediaBytes) return part;
  if (part.range?.next === undefined) return { ...part, media };
  const version = info.etag === undefined ? {} : { etag: formatEntityTag(info.etag) };
  try {
    const whole = await readPart(storage, { ...others, ...version, maxBytes: maxMediaBytes });
    return { ...part, bytes: whole.bytes, media };
  } catch (error) {
    // one of unknown size
    if (SluiceError.is(error) && error.code === "too_large") return part;
    throw error;
  }
}
