import type { IncomingHttpHeaders } from "node:http";
import type { GeneratedContent } from "@sluice/storage";

/** A way in which the stand-in can be made to differ from S3, to see that tests notice. */
export type Deviation =
  | "accepts-any-signature"
  | "accepts-expired-urls"
  | "keeps-framing"
  | "ignores-checksums"
  | "ignores-read-conditions"
  | "ignores-write-conditions"
  | "ignores-ranges"
  | "ignores-overrides"
  | "ignores-url-encoding"
  | "loses-last-page"
  | "shows-unfinished-uploads";

/** Settings of `startS3StandIn`. */
export interface S3StandInOptions {
  readonly bucket?: string;
  readonly region?: string;
  /** The time it goes by; the real one unless told. */
  readonly now?: () => number;
  /** Keep what is uploaded. Otherwise it is checked and counted, and reads as zeros. True unless told. */
  readonly keepUploads?: boolean;
  /** Origins that the CORS rule of the bucket allows; no rule unless told. */
  readonly corsOrigins?: readonly string[];
  /** Is told of each change, as the JSON text that S3 sends to a queue. */
  readonly onEvent?: (notification: string) => void;
  readonly deviations?: readonly Deviation[];
  /** Faults of this request ("PUT /bucket/key"), besides those that were pushed. */
  readonly onRequest?: (target: string) => Fault | undefined;
}

/** Metadata kept beside the content of an object. */
export interface ObjectMeta {
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly storageClass?: string;
  /** By name without `x-amz-meta-`. */
  readonly user?: Readonly<Record<string, string>>;
  /** By algorithm ("sha256"), in base64. */
  readonly checksums?: Readonly<Record<string, string>>;
  readonly checksumType?: "FULL_OBJECT" | "COMPOSITE";
}

/**
 * The next faults. A fault with a `status` meets the next request, one about a body the next answer
 * with an object in it. The first that fits is used, and is gone after `times`.
 */
export interface Fault {
  /** Only for requests whose method and target ("GET /bucket/key?x") match. */
  readonly on?: RegExp;
  /** How often; once unless told. */
  readonly times?: number;
  /** Answer with this status, … */
  readonly status?: number;
  /** … this code of S3, where there is a body, … */
  readonly code?: string;
  /** … and this `Retry-After`. */
  readonly retryAfter?: string;
  /** Answer 200 and tell the error in the body, as S3 does when it finds out late. */
  readonly late?: true;
  /** Do what is asked for, and break the connection in place of an answer. */
  readonly lost?: true;
  /** Never answer. */
  readonly silent?: true;
  /** Reset the connection after this many bytes of the object. */
  readonly resetAfter?: number;
  /** End the connection in order after this many bytes. */
  readonly endAfter?: number;
  /** Send no more after this many bytes. */
  readonly stallAfter?: number;
  /** Change the byte at this offset. */
  readonly corruptAt?: number;
  /** Send this page with status 200. */
  readonly page?: { readonly type: string; readonly text: string; readonly isCounted: boolean };
  /** Name no version, or another one than it is. */
  readonly validator?: "none" | "other";
  /** Send all of the object, whatever range was asked for. */
  readonly ignoreRange?: true;
}

/** A request as it came. */
export interface SeenRequest {
  readonly method: string;
  /** Path and query, undecoded. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** A running stand-in. Disposing it ends it with all its connections. */
export interface S3StandIn extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`; path style. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** Every request so far, oldest first. */
  readonly requests: readonly SeenRequest[];
  /** Push faults here. */
  readonly faults: Fault[];
  /** Puts an object into the bucket without a request. Generated content costs no memory. */
  put(name: string, content: Uint8Array | GeneratedContent, meta?: ObjectMeta): void;
  remove(name: string): void;
  /** Multipart uploads that are neither completed nor aborted. */
  countUploads(): number;
  /** Connections that are in the middle of an answer. */
  countAnswering(): number;
  /** Bytes of objects sent so far. */
  countBytes(): number;
}
