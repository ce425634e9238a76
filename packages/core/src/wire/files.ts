// Files named by URI: SEP-2631, a draft.
import type { EXTENSION_ID, DownloadUrlMeta } from "./streaming.ts";
import type { UPLOADS_EXTENSION_ID, UploadEndpointMeta } from "./uploads.ts";

/** Method with which a client asks for an upload (SEP-2631 §6). Experimental. */
export const AUTHORIZE_UPLOAD_METHOD = "files/authorizeUpload";

/** Method with which a client asks for a download (SEP-2631 §8). Experimental. */
export const AUTHORIZE_DOWNLOAD_METHOD = "files/authorizeDownload";

/** Keyword of a schema that makes a URI string a file (SEP-2631 §5). */
export const FILE_KEYWORD = "x-mcp-file";

/** Scheme of the URIs that name files to be transferred (SEP-2631 §4), which no resource has. */
export const FILE_URI_SCHEME = "mcp-file:";

/** What `x-mcp-file` says (SEP-2631 §5). */
export interface FileInputDescriptor {
  /** Media types, ranges and extensions, as in `FileFieldSchema`. Absent means everything. */
  readonly accept?: readonly string[];
  /** Largest file in bytes, decoded. Absent: any. */
  readonly maxSize?: number;
  /** Absent: the client chooses. */
  readonly transferModes?: readonly ("inline" | "upload")[];
}

/** A file as it is named to a peer (SEP-2631 §4). */
export interface FileValue {
  /** With {@link FILE_URI_SCHEME}. */
  readonly uri: string;
  readonly name?: string;
  readonly mimeType?: string;
  /** Bytes. */
  readonly size?: number;
  /** `value` is base64url without padding, 43 characters. */
  readonly digest?: { readonly algorithm: "sha-256"; readonly value: string };
  /** Ours: `expiresAt`, until when the URI is good. */
  readonly _meta?: { readonly [UPLOADS_EXTENSION_ID]?: Pick<UploadEndpointMeta, "expiresAt"> };
}

/** How to move the bytes (SEP-2631 §6 and §8). */
export interface FileTransferDescriptor {
  readonly transport: "https";
  readonly method: "GET" | "POST" | "PUT";
  /** Absolute URL. */
  readonly url: string;
  /** To be sent with the request, beside those of HTTP. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The form that carries the bytes. Absent: they are the body. */
  readonly multipart?: {
    readonly fileField: string;
    readonly fields?: Readonly<Record<string, string>>;
  };
  /** ISO 8601 date-time. Optional in the draft; ours always has it. */
  readonly expiresAt: string;
  /** Under {@link UPLOADS_EXTENSION_ID} of an upload, under {@link EXTENSION_ID} of a download. */
  readonly _meta?: {
    readonly [UPLOADS_EXTENSION_ID]?: UploadEndpointMeta;
    readonly [EXTENSION_ID]?: DownloadUrlMeta;
  };
}
