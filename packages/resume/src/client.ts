export { SluiceError, type FetchLike, type SluiceErrorCode } from "@sluice/core";
export { withResume } from "./client/with-resume.ts";
export type { ResumeOptions } from "./client/options.ts";
