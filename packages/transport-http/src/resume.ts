export { withResume } from "./lib/with-resume.ts";
export type {
  CloseResumeOptions,
  RerunOptions,
  ResumeHandler,
  WithResumeOptions,
} from "./lib/resume-options.ts";
