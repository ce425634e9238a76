import type { ObjectInfo } from "@sluice/storage";

/** What a provider gave, as chunks that are asked for one by one. */
export interface ProvidedSource {
  /** The next chunk, which the reader owns; `undefined` at the end. Not called twice at once, nor after the end or an error. */
  readonly next: () => Promise<Uint8Array | undefined>;
  /** Ends it at any point, also while a chunk is awaited. Waits for nothing and never throws. */
  readonly release: (reason?: unknown) => void;
  /** Bytes of the whole resource, where what was given tells them. */
  readonly size?: number | undefined;
  readonly contentType?: string | undefined;
  /** A clean end may be a connection that broke: refused where the size is not known. Default: false. */
  readonly needsSize?: boolean;
  /** Offset of its first byte, where what was given tells it. */
  readonly start?: number;
}

/** What a source is for. */
export interface SourceTerms {
  /** Start of messages: `provider: open "2026.csv"`. */
  readonly operation: string;
  /** Canonical URI of the resource. */
  readonly uri: string;
  /** What was described of it. */
  readonly info: ObjectInfo;
  /** Offset of the first byte that was asked for. */
  readonly start: number;
}
