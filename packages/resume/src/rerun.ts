export { rerunCalls, type RerunOptions } from "./rerun/rerun-calls.ts";
export type { Rerun } from "./stream/rerun.ts";
