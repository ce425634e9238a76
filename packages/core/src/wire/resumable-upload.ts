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
