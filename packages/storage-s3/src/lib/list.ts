import { type _Object, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import { listPage, toStrongEtag } from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import type { S3Root } from "./root.ts";

const operation = "s3: list";

/**
 * One page of a listing. A page is short where names have no legal key: markers of folders end in
 * a slash. It may even be empty and not the last.
 */
export function listObjects(calls: Calls, root: S3Root, options: ListOptions): Promise<ListPage> {
  const store = `${root.bucket}/${root.prefix}`;
  return listPage(options, { operation, store }, async ({ prefix, limit, after }) => {
    const command = new ListObjectsV2Command({
      Bucket: root.bucket,
      Prefix: root.prefix + prefix,
      MaxKeys: limit,
      // a name may hold characters that XML cannot
      EncodingType: "url",
      ContinuationToken: after,
    });
    const page = await calls.send(command, { operation, signal: options.signal });
    // XML of something else parses as an empty listing
    if (page.IsTruncated === undefined && page.Contents === undefined)
      throw new SluiceError("unavailable", `${operation}: the answer is not a listing`);
    // servers that do not know the encoding answer without naming it, and with plain names
    const decode = page.EncodingType === "url" ? decodeName : (name: string) => name;
    const objects = (page.Contents ?? []).flatMap((object) => toListed(object, root, decode));
    if (page.IsTruncated && !page.NextContinuationToken)
      throw new SluiceError(
        "protocol",
        `${operation}: the page is not the last, but names no next one`,
      );
    const next = page.IsTruncated ? page.NextContinuationToken : undefined;
    return { objects, next, untyped: true };
  });
}

function toListed(
  { Key, Size, ETag, LastModified }: _Object,
  root: S3Root,
  decode: (name: string) => string | undefined,
): ObjectInfo[] {
  const name = decode(Key ?? "");
  const key = name === undefined ? undefined : root.toKey(name);
  if (key === undefined) return [];
  const etag = toStrongEtag(ETag);
  return [definedMembers({ key, size: Size, etag, lastModified: LastModified })];
}

/** The text behind form-url-encoding, as in `red+flower.jpg`; `undefined` when it is not UTF-8. */
export function decodeName(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
