export { withResume } from "./resume/with-resume.ts";
export type {
  CloseResumeOptions,
  RerunOptions,
  ResumeHandler,
  WithResumeOptions,
} from "./resume/resume-options.ts";
