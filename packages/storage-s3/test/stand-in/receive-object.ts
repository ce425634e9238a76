import type { IncomingMessage } from "node:http";
import type { Deviation, ObjectMeta } from "./options.ts";
import { etagOf, hex, type Payload } from "./payload.ts";
import { Refusal } from "./refusal.ts";
import { concatContents, type Store, type StoredObject, toContent, toZeros } from "./store.ts";
import { textsOf, type XmlElements } from "./xml.ts";

const minPartBytes = 5 * 1024 * 1024;
/** 1000 in S3: few, so that tests see several pages. */
const partsOfPage = 2;

/** Terms of receiving besides the request. */
export interface Receiving {
  readonly store: Store;
  readonly name: string;
  readonly keepUploads: boolean;
  readonly deviates: (deviation: Deviation) => boolean;
  /** Makes an object visible. */
  readonly publish: (object: Omit<StoredObject, "lastModified">) => void;
}

/** An object in one request; gives its etag. */
export function putWhole(
  { headers }: IncomingMessage,
  { bytes, checksums }: Payload,
  receiving: Receiving,
): string {
  ensureWriteConditions(headers, receiving);
  const etag = etagOf(bytes);
  const content = receiving.keepUploads ? toContent(bytes) : toZeros(bytes.length);
  const meta = { ...metaOf(headers), checksums };
  receiving.publish({ name: receiving.name, content, etag, meta });
  return etag;
}

export function createUpload(
  { headers }: IncomingMessage,
  { store, name }: Receiving,
): XmlElements {
  const id = crypto.randomUUID();
  store.uploads.set(id, { id, name, meta: metaOf(headers), parts: new Map() });
  return { InitiateMultipartUploadResult: { Key: name, UploadId: id } };
}

/** One part; gives its etag. */
export function putPart(
  { bytes }: Payload,
  query: ReadonlyMap<string, string>,
  receiving: Receiving,
): string {
  const { keepUploads } = receiving;
  const number = Number(query.get("partNumber"));
  if (!(number >= 1 && number <= 10_000)) throw new Refusal(400, "InvalidArgument");
  const etag = etagOf(bytes);
  const content = keepUploads ? toContent(bytes) : toZeros(bytes.length);
  uploadOf(receiving, query).parts.set(number, { etag, content });
  return etag;
}

export function completeUpload(
  { headers }: IncomingMessage,
  { bytes }: Payload,
  query: ReadonlyMap<string, string>,
  receiving: Receiving,
): XmlElements {
  const { store, name, publish } = receiving;
  const upload = uploadOf(receiving, query);
  ensureWriteConditions(headers, receiving);
  const xml = bytes.toString();
  const numbers = textsOf(xml, "PartNumber").map(Number);
  const etags = textsOf(xml, "ETag").map((etag) => etag.replaceAll('"', ""));
  if (numbers.length === 0) throw new Refusal(400, "MalformedXML");
  if (numbers.some((number, index) => index > 0 && number <= (numbers[index - 1] ?? 0)))
    throw new Refusal(400, "InvalidPartOrder");
  const parts = numbers.map((number, index) => {
    const part = upload.parts.get(number);
    if (part === undefined || part.etag !== etags[index]) throw new Refusal(400, "InvalidPart");
    if (index < numbers.length - 1 && part.content.size < minPartBytes)
      throw new Refusal(400, "EntityTooSmall");
    return part;
  });
  const digest = hex("md5", Buffer.from(parts.map(({ etag }) => etag).join(""), "hex"));
  const etag = `${digest}-${parts.length}`;
  const content = concatContents(parts.map((part) => part.content));
  store.uploads.delete(upload.id);
  publish({ name, content, etag, meta: upload.meta });
  return { CompleteMultipartUploadResult: { Key: name, ETag: `"${etag}"` } };
}

export function listParts(query: ReadonlyMap<string, string>, receiving: Receiving): XmlElements {
  const { id, parts, name } = uploadOf(receiving, query);
  const after = Number(query.get("part-number-marker") ?? 0);
  const left = [...parts].filter(([number]) => number > after).toSorted(([a], [b]) => a - b);
  const page = left.slice(0, partsOfPage);
  const Part = page.map(([number, { etag, content }]) => ({
    PartNumber: number,
    ETag: `"${etag}"`,
    Size: content.size,
  }));
  const IsTruncated = page.length < left.length;
  const NextPartNumberMarker = page.at(-1)?.[0] ?? 0;
  return { ListPartsResult: { Key: name, UploadId: id, IsTruncated, NextPartNumberMarker, Part } };
}

export function abortUpload(query: ReadonlyMap<string, string>, receiving: Receiving): void {
  receiving.store.uploads.delete(uploadOf(receiving, query).id);
}

function uploadOf({ store, name }: Receiving, query: ReadonlyMap<string, string>) {
  const upload = store.uploads.get(query.get("uploadId") ?? "");
  if (upload?.name !== name) throw new Refusal(404, "NoSuchUpload");
  return upload;
}

function ensureWriteConditions(
  { "if-match": ifMatch, "if-none-match": ifNoneMatch }: IncomingMessage["headers"],
  { store, name, deviates }: Receiving,
): void {
  if (deviates("ignores-write-conditions")) return;
  const present = store.objects.get(name);
  if (ifMatch !== undefined && present === undefined) throw new Refusal(404, "NoSuchKey");
  if (ifMatch !== undefined && ifMatch !== `"${present?.etag}"`)
    throw new Refusal(412, "PreconditionFailed");
  if (ifNoneMatch === "*" && present !== undefined) throw new Refusal(412, "PreconditionFailed");
}

function metaOf(headers: IncomingMessage["headers"]): ObjectMeta {
  const { "content-type": contentType, "content-encoding": coding = "" } = headers;
  // the framing of the upload is not part of the object
  const kept = coding.split(/, */).filter((one) => one !== "" && one !== "aws-chunked");
  return {
    ...(contentType !== undefined && { contentType }),
    ...(kept.length > 0 && { contentEncoding: kept.join(",") }),
    user: Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) =>
        name.startsWith("x-amz-meta-") ? [[name.slice("x-amz-meta-".length), String(value)]] : [],
      ),
    ),
  };
}
