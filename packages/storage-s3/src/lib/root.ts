import { SluiceError } from "@sluice/core";
import { checkKey, ensureKey, quoteKey } from "@sluice/storage/plugin";

/** Longest name of an object in S3, in UTF-8 bytes. */
const maxNameBytes = 1024;

/** The part of a bucket that a backend serves. */
export interface S3Root {
  readonly bucket: string;
  /** Empty, or ends with a slash, so that `docs` never reaches into `docs-old`. */
  readonly prefix: string;
  /** The name of an object in the bucket. An illegal key, or one that is too long here, throws `invalid_argument`. */
  toName(key: string, method: string): string;
  /** The key of an object in the bucket; `undefined` outside the root, and where its name is no legal key. */
  toKey(name: string): string | undefined;
}

/** Creates a root. A prefix that is neither empty nor a legal key throws `invalid_argument`. */
export function createRoot(bucket: string, givenPrefix: string): S3Root {
  const folder = givenPrefix.endsWith("/") ? givenPrefix.slice(0, -1) : givenPrefix;
  const finding = givenPrefix === "" ? undefined : checkKey(folder);
  if (finding !== undefined)
    throw new SluiceError("invalid_argument", `s3: the prefix ${quoteKey(folder)} ${finding}`);
  if (bucket === "") throw new SluiceError("invalid_argument", "s3: the bucket has no name");
  const prefix = folder === "" ? "" : `${folder}/`;
  return {
    bucket,
    prefix,
    toName(key, method) {
      ensureKey(key, `s3: ${method}`);
      const name = prefix + key;
      if (Buffer.byteLength(name) > maxNameBytes)
        throw new SluiceError(
          "invalid_argument",
          `s3: ${method} ${quoteKey(key)}: the key with its prefix is longer than ${maxNameBytes} bytes`,
        );
      return name;
    },
    toKey(name) {
      if (!name.startsWith(prefix)) return undefined;
      const key = name.slice(prefix.length);
      return checkKey(key) === undefined ? key : undefined;
    },
  };
}
