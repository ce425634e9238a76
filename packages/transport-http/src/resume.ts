export { withResume } from "./lib/with-resume.ts";
export type { RerunOptions, ResumeHandler, WithResumeOptions } from "./lib/resume-options.ts";
