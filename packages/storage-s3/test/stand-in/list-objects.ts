import type { Deviation } from "./options.ts";
import { Refusal } from "./refusal.ts";
import { sortedNames, type Store } from "./store.ts";
import type { XmlElements } from "./xml.ts";

const maxKeys = 1000;
const tokenMark = "after:";

/** One page of ListObjectsV2. */
export function listObjects(
  bucket: string,
  { objects, uploads }: Store,
  query: ReadonlyMap<string, string>,
  deviates: (deviation: Deviation) => boolean,
): XmlElements {
  const prefix = query.get("prefix") ?? "";
  const token = query.get("continuation-token");
  const after = token === undefined ? query.get("start-after") : readToken(token);
  const limit = Math.min(Number(query.get("max-keys") ?? maxKeys), maxKeys);
  const encodes = query.get("encoding-type") === "url" && !deviates("ignores-url-encoding");
  const encode = (text: string): string => (encodes ? encodeForm(text) : text);

  const unfinished = deviates("shows-unfinished-uploads")
    ? [...uploads.values()].map(({ name }) => name)
    : [];
  const names = sortedNames([...objects.keys(), ...unfinished]).filter(
    (name) =>
      name.startsWith(prefix) &&
      (after === undefined || Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0),
  );
  const page = names.slice(0, limit);
  const truncated = names.length > page.length && !deviates("loses-last-page");
  return {
    ListBucketResult: {
      Name: bucket,
      Prefix: encode(prefix),
      KeyCount: page.length,
      MaxKeys: limit,
      IsTruncated: truncated,
      ...(encodes && { EncodingType: "url" }),
      ...(truncated && {
        NextContinuationToken: Buffer.from(tokenMark + page.at(-1)).toString("base64"),
      }),
      Contents: page.map((name) => {
        const object = objects.get(name);
        return {
          Key: encode(name),
          LastModified: (object?.lastModified ?? new Date(0)).toISOString(),
          ETag: `"${object?.etag}"`,
          Size: object?.content.size ?? 0,
          StorageClass: object?.meta.storageClass ?? "STANDARD",
        };
      }),
    },
  };
}

function readToken(token: string): string {
  const text = Buffer.from(token, "base64").toString();
  if (!text.startsWith(tokenMark))
    throw new Refusal(400, "InvalidArgument", "The continuation token provided is incorrect");
  return text.slice(tokenMark.length);
}

/** As in a form: a space is a plus. Slashes stay. */
export function encodeForm(text: string): string {
  return encodeURIComponent(text).replaceAll("%20", "+").replaceAll("%2F", "/");
}
