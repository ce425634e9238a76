import type { EventStore } from "@sluice/state";
import type { Sluice } from "@sluice/server";
import type { McpFetchHandler } from "@sluice/transport-http";
import type { CallReruns } from "../stream/rerun.ts";
import type { StreamWriter, WrittenStream } from "../stream/stream-writer.ts";
import type { StreamLinks } from "./links.ts";
import type { ResumeTimes } from "./options.ts";
import type { RunningCalls } from "./running-calls.ts";

/** The parts that the functions of one `withResume` share; each picks its own. */
export interface ResumeParts extends ResumeTimes {
  readonly handler: McpFetchHandler;
  readonly sluice: Sluice;
  readonly store: EventStore;
  readonly calls: RunningCalls;
  readonly links: StreamLinks;
  readonly openWriter: (stream: WrittenStream) => StreamWriter;
  /** Absent if calls never run again. */
  readonly reruns: CallReruns | undefined;
  readonly maxBodyBytes: number;
  readonly onError: (error: unknown) => void;
}
