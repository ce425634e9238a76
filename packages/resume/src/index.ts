export { createResume, type Resume } from "./server/with-resume.ts";
export type { CloseResumeOptions, ResumeHandler, ResumeOptions } from "./server/options.ts";
export type { Rerun } from "./stream/rerun.ts";
