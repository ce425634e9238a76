import type { GeneratedContent } from "@sluice/storage";
import type { ObjectMeta } from "./options.ts";

/** An object in the bucket. */
export interface StoredObject {
  readonly name: string;
  readonly content: GeneratedContent;
  /** Without quotes. */
  readonly etag: string;
  readonly lastModified: Date;
  readonly meta: ObjectMeta;
}

/** An upload of several parts in progress. */
interface StoredUpload {
  readonly id: string;
  readonly name: string;
  readonly meta: ObjectMeta;
  readonly parts: Map<number, { readonly etag: string; readonly content: GeneratedContent }>;
}

/** Contents of the stand-in. */
export interface Store {
  readonly objects: Map<string, StoredObject>;
  readonly uploads: Map<string, StoredUpload>;
}

/** The bytes as content that is read in pieces. */
export function toContent(bytes: Uint8Array): GeneratedContent {
  return { size: bytes.byteLength, read: (start, end) => bytes.subarray(start, end) };
}

const zeros = new Uint8Array(1024 * 1024);

/** Content that is not kept: as many zeros. */
export function toZeros(size: number): GeneratedContent {
  return { size, read: (start, end) => zeros.subarray(0, end - start) };
}

/** One content after the other. A read never crosses from one part into the next. */
export function concatContents(contents: readonly GeneratedContent[]): GeneratedContent {
  return {
    size: contents.reduce((sum, { size }) => sum + size, 0),
    read(start, end) {
      let offset = 0;
      for (const content of contents) {
        if (start < offset + content.size)
          return content.read(start - offset, Math.min(end - offset, content.size));
        offset += content.size;
      }
      return new Uint8Array();
    },
  };
}

/** Names in the order in which S3 lists them: by their UTF-8 bytes. */
export function sortedNames(names: Iterable<string>): string[] {
  return [...names].toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
}
