import { basename } from "node:path";
import { ProcessTransport, type ProcessOptions } from "./process-transport.ts";
import type { Upstream } from "./upstream.ts";

/** A server that is a program on this machine and speaks over its standard input and output. */
export function createProcessUpstream(options: ProcessOptions): Upstream {
  return {
    name: basename(options.command),
    kind: "process",
    open: (flow) => new ProcessTransport(options, flow),
  };
}
