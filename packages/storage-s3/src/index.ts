export { createS3Backend, type S3BackendOptions } from "./lib/s3-backend.ts";
export type { S3EventMessage, S3EventSource } from "./lib/watch.ts";
