export { SluiceError, type SluiceErrorCode } from "@sluice/core";
export type { FetchLike } from "./lib/fetch-exchange.ts";
export { withResume } from "./lib/with-resume.ts";
export type { ResumeOptions } from "./lib/resume-options.ts";
