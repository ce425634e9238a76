export { SluiceError, type FetchLike, type SluiceErrorCode } from "@sluice/core";
export { withResumableFetch } from "./client/with-resume.ts";
export type { ResumableFetchOptions } from "./client/options.ts";
