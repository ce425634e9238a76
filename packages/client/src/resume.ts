export { SluiceError, type SluiceErrorCode } from "@sluice/core";
export type { FetchLike } from "./net/fetch-exchange.ts";
export { withResume } from "./resume/with-resume.ts";
export type { ResumeOptions } from "./resume/resume-options.ts";
