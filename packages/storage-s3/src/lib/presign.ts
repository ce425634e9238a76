import { GetObjectCommand } from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import type { CallOptions, PresignedUrl, PresignOptions } from "@sluice/storage";
import type { Calls } from "./calls.ts";
import type { S3Root } from "./root.ts";
import { toSluiceError } from "./s3-error.ts";

/** The longest that a signature of S3 is good for: seven days. */
const maxSeconds = 7 * 24 * 3600;

/**
 * Signs a GET, without `Range` and `If-Match`: if they were signed, every client would have to send the
 * same. A URL expires with the credentials that signed it, so it never promises more. Text that S3
 * cannot put into its response is refused: a header has no characters beyond ASCII.
 */
export async function presignObject(
  calls: Calls,
  root: S3Root,
  key: string,
  options: PresignOptions,
): Promise<PresignedUrl | undefined> {
  const { expiresInMs, contentType, contentDisposition, signal } = options;
  const { operation, address } = root.begin("presign", key, options);
  if (![contentType, contentDisposition].every(isHeaderText)) return undefined;
  try {
    const { expiration } = await calls.credentials({ operation, signal });
    // signatures count in whole seconds
    const now = Math.floor(Date.now() / 1000) * 1000;
    const leftMs = (expiration?.getTime() ?? Infinity) - now;
    const expiresIn = Math.min(Math.floor(Math.min(expiresInMs, leftMs) / 1000), maxSeconds);
    if (!(expiresIn >= 1)) return undefined;
    const { client } = calls;
    const command = new GetObjectCommand({
      ...address,
      ResponseContentType: contentType,
      ResponseContentDisposition: contentDisposition,
    });
    // the time of S3, if the SDK has found that our clock is wrong
    const signingDate = new Date(now + client.config.systemClockOffset);
    const url = await getSignedUrl(client, command, { expiresIn, signingDate });
    signal?.throwIfAborted();
    return { url, expiresAt: now + expiresIn * 1000 };
  } catch (error) {
    signal?.throwIfAborted();
    throw toSluiceError(error, operation);
  }
}

/**
 * The origin of all URLs, which depends on bucket, region and settings of the client: that of a URL for any object. None while
 * the credentials are about to expire.
 */
export async function presignOrigins(
  calls: Calls,
  root: S3Root,
  options: CallOptions,
): Promise<readonly string[]> {
  const presigned = await presignObject(calls, root, "any", { ...options, expiresInMs: 60_000 });
  return presigned ? [new URL(presigned.url).origin] : [];
}

function isHeaderText(text: string | undefined): boolean {
  return text === undefined || /^[\x20-\x7e]+$/.test(text);
}
