// Uploads in steps: draft-ietf-httpbis-resumable-upload.

/** Header fields of draft-ietf-httpbis-resumable-upload §4.1: integer, boolean (`?0`, `?1`), integer, dictionary. */
export const UPLOAD_OFFSET_HEADER = "upload-offset";
export const UPLOAD_COMPLETE_HEADER = "upload-complete";
export const UPLOAD_LENGTH_HEADER = "upload-length";
export const UPLOAD_LIMIT_HEADER = "upload-limit";

/** Media type of the body that goes on with an upload (the same draft, §6). */
export const PARTIAL_UPLOAD_TYPE = "application/partial-upload";
