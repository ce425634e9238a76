import { type _Object, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import {
  beginOperation,
  checkKey,
  listPage,
  type OperationOptions,
  quoteKey,
  toStrongEtag,
  UnlistedTally,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";

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

const listOperation = "s3: list";

/**
 * One page of a listing. A page is short if names have no legal key, such as markers of folders,
 * which end in a slash. It may even be empty and not the last.
 */
export function listObjects(calls: Calls, root: S3Root, options: ListOptions): Promise<ListPage> {
  const store = `${root.bucket}/${root.prefix}`;
  return listPage(
    options,
    { operation: listOperation, store },
    async ({ prefix, limit, after }) => {
      const command = new ListObjectsV2Command({
        Bucket: root.bucket,
        Prefix: root.prefix + prefix,
        MaxKeys: limit,
        // a name may hold characters that XML cannot
        EncodingType: "url",
        ContinuationToken: after,
      });
      const page = await calls.send(command, { operation: listOperation, signal: options.signal });
      // XML of something else parses as an empty listing
      if (page.IsTruncated === undefined && page.Contents === undefined)
        throw new SluiceError("unavailable", `${listOperation}: the answer is not a listing`);
      // servers without this encoding give plain names, and do not name it in the response
      const decode = page.EncodingType === "url" ? decodeName : (name: string) => name;
      const tally = new UnlistedTally();
      const objects = (page.Contents ?? []).flatMap((object) =>
        toListed(object, decode(object.Key ?? ""), { root, tally }),
      );
      if (page.IsTruncated && !page.NextContinuationToken)
        throw new SluiceError(
          "protocol",
          `${listOperation}: the page is not the last, but names no next one`,
        );
      const next = page.IsTruncated ? page.NextContinuationToken : undefined;
      return { objects, next, untyped: true, ...definedMembers({ unlisted: tally.take() }) };
    },
  );
}

function toListed(
  { Size, ETag, LastModified }: _Object,
  name: string | undefined,
  { root, tally }: { readonly root: S3Root; readonly tally: UnlistedTally },
): ObjectInfo[] {
  const key = name === undefined ? undefined : root.toKey(name);
  if (key === undefined) {
    if (name === undefined) tally.add("notUtf8");
    else tally.addName(name.slice(root.prefix.length));
    return [];
  }
  const etag = toStrongEtag(ETag);
  return [definedMembers({ key, size: Size, etag, lastModified: LastModified })];
}

/** Decodes form-url-encoding, as in `red+flower.jpg`; `undefined` if the text is not UTF-8. */
export function decodeName(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
