// Binary elicitation: SEP-1306, and what we add to it.

/**
 * Extension id under `_meta` of an entry of `uploadEndpoints` (SEP-1306 §2) and of an upload descriptor
 * (SEP-2631): the forms that the endpoint accepts besides multipart, which each accepts.
 */
export const UPLOADS_EXTENSION_ID = "dev.sluice/uploads";

/** `_meta[UPLOADS_EXTENSION_ID]` of an upload endpoint. */
export interface UploadEndpointMeta {
  /**
   * `raw`: one file as the body of a `POST`. `resumable`: also in steps, as
   * draft-ietf-httpbis-resumable-upload describes. Absent: multipart only.
   */
  readonly wire?: "raw" | "resumable";
  /** `bound`: send the session's credentials with the bytes. `self`: the URL is enough. Absent means `bound`. */
  readonly auth?: "bound" | "self";
  /** True when the bytes must also carry the `Mcp-Session-Id` of the session, in protocol revisions with sessions. */
  readonly sessionBound?: boolean;
  /** ISO 8601 date-time, from which the endpoint is refused. Absent: not told. */
  readonly expiresAt?: string;
  /** Maximum number of files, if `multiple` is true. Absent: not told. */
  readonly maxFiles?: number;
}

/** Declaration of a client, as `capabilities.elicitation.binary` (SEP-1306 §1). */
export interface BinaryElicitation {
  /** Largest file in bytes. Absent: any. */
  readonly maxFileSize?: number;
  /** Media types (`image/png`) and ranges (`image/*`). Absent means everything. */
  readonly supportedMimeTypes?: readonly string[];
}

/** A property of `requestedSchema` that is to be a file (SEP-1306 §2). */
export interface FileFieldSchema {
  readonly type: "file";
  readonly title?: string;
  readonly description?: string;
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`). Absent means everything. */
  readonly accept?: readonly string[];
  /** Largest file in bytes. Absent: any. */
  readonly maxSize?: number;
  /** Whether several files may come. Absent means one. */
  readonly multiple?: boolean;
  /** The same as being listed in the `required` of the whole. Absent means no. */
  readonly required?: boolean;
}

/** Where the files of one field go (SEP-1306 §2). */
export interface UploadEndpoint {
  /** Absolute URL. */
  readonly url: string;
  readonly method: "POST" | "PUT";
  /** Names the field's slot; comes back in {@link AnsweredFile}. */
  readonly uploadId: string;
  readonly _meta?: { readonly [UPLOADS_EXTENSION_ID]?: UploadEndpointMeta };
}

/** A file in the answer to an elicitation (SEP-1306 §3). */
export interface AnsweredFile {
  /** As the user's system names it. Untrusted. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  readonly uploadId: string;
  /** Ours: SHA-256, 64 lower-case hex digits. */
  readonly sha256?: string;
}

// Uploads in steps: header fields and media type of draft-ietf-httpbis-resumable-upload.

/** Integer (§4.1): bytes from which on the body goes, or that the server has. */
export const UPLOAD_OFFSET_HEADER = "upload-offset";

/** Boolean (§4.1), `?0` or `?1`: whether the body ends the upload. */
export const UPLOAD_COMPLETE_HEADER = "upload-complete";

/** Integer (§4.1): bytes of the whole upload. */
export const UPLOAD_LENGTH_HEADER = "upload-length";

/** Dictionary (§4.1): limits of the server, such as `max-size=1048576`. */
export const UPLOAD_LIMIT_HEADER = "upload-limit";

/** Media type of a body that continues an upload (§6). */
export const PARTIAL_UPLOAD_TYPE = "application/partial-upload";
