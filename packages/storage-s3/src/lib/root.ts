import { SluiceError } from "@sluice/core";
import { beginOperation, checkKey, type OperationOptions, quoteKey } from "@sluice/storage/plugin";

/** Longest name of an object in S3, in UTF-8 bytes. */
const maxNameBytes = 1024;

/** One call about one object. */
export interface ObjectCall {
  /** Start of messages: `s3: open "a.txt"`. */
  readonly operation: string;
  readonly address: { readonly Bucket: string; readonly Key: string };
}

/** The part of a bucket that a backend serves. */
export interface S3Root {
  readonly bucket: string;
  /** Empty, or ends with a slash, so that `docs` never reaches into `docs-old`. */
  readonly prefix: string;
  /** Begins a call (see `beginOperation`). A key that is too long here also throws `invalid_argument`. */
  begin(method: string, key: string, options: OperationOptions): ObjectCall;
  /** The key of an object in the bucket; `undefined` outside the root, or if its name is not a legal key. */
  toKey(name: string): string | undefined;
}

/** Creates a root. A prefix that is neither empty nor a legal key throws `invalid_argument`. */
export function createRoot(bucket: string, givenPrefix: string): S3Root {
  const folder = givenPrefix.endsWith("/") ? givenPrefix.slice(0, -1) : givenPrefix;
  const finding = givenPrefix === "" ? undefined : checkKey(folder);
  if (finding !== undefined)
    throw new SluiceError("invalid_argument", `s3: the prefix ${quoteKey(folder)} ${finding}`);
  const prefix = folder === "" ? "" : `${folder}/`;
  return {
    bucket,
    prefix,
    begin(method, key, options) {
      const operation = beginOperation(`s3: ${method}`, key, options);
      const name = prefix + key;
      if (Buffer.byteLength(name) > maxNameBytes)
        throw new SluiceError(
          "invalid_argument",
          `${operation}: the key with its prefix is longer than ${maxNameBytes} bytes`,
        );
      return { operation, address: { Bucket: bucket, Key: name } };
    },
    toKey(name) {
      if (!name.startsWith(prefix)) return undefined;
      const key = name.slice(prefix.length);
      return checkKey(key) === undefined ? key : undefined;
    },
  };
}
