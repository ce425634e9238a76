/**
 * The vocabulary that both ends share: names and numbers of the protocol, each in exactly one
 * place.
 * @module
 */
export {
  ELICIT_METHOD,
  FIRST_MODERN_VERSION,
  HEADER_MISMATCH_CODE,
  LISTEN_METHOD,
  METHOD_HEADER,
  NAME_HEADER,
  type RevisionKind,
} from "./wire/mcp.ts";
export {
  EXTENSION_ID,
  OFFLOAD_HEADER,
  RESOURCE_SIZE_HEADER,
  RESOURCE_TYPE_HEADER,
  RESOURCE_URI_HEADER,
  STREAM_METHOD,
  STREAM_RELATION,
  deliveryModes,
  type ClientStreaming,
  type DeliveryMode,
  type DownloadUrlMeta,
  type DownloadUrlResult,
} from "./wire/streaming.ts";
export { errorTable, type ErrorRow, type Reason } from "./wire/errors.ts";
export {
  UPLOADS_EXTENSION_ID,
  type AnsweredFile,
  type BinaryElicitation,
  type FileFieldSchema,
  type UploadEndpoint,
  type UploadEndpointMeta,
} from "./wire/uploads.ts";
export {
  PARTIAL_UPLOAD_TYPE,
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_LIMIT_HEADER,
  UPLOAD_OFFSET_HEADER,
} from "./wire/uploads.ts";
export {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  FILE_KEYWORD,
  FILE_URI_SCHEME,
  type FileInputDescriptor,
  type FileTransferDescriptor,
  type FileValue,
} from "./wire/files.ts";
export {
  BINARY_ABORT_METHOD,
  BINARY_CREDIT_METHOD,
  BINARY_EXTENSION_ID,
  type BinaryMode,
  type BinaryRef,
  type BinaryTransferContent,
} from "./wire/binary.ts";
