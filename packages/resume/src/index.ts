export { withResume } from "./server/with-resume.ts";
export type {
  CloseResumeOptions,
  RerunOptions,
  ResumeHandler,
  WithResumeOptions,
} from "./server/options.ts";
