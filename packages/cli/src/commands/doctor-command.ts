import { examine, type Diagnosis } from "@sluice/bridge/internal";
import { portWarning } from "../hosts/cloud-port.ts";
import { ensureTrust } from "../server-calls/connect.ts";
import { headersFrom } from "../server-calls/headers.ts";
import { type NetworkOptions, useNetwork } from "../server-calls/server-rules.ts";
import { fault } from "../terminal/failure.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";

/** Options of `sluice doctor`. */
export interface DoctorOptions extends NetworkOptions {
  /** Headers of every request: `Name: value`. */
  readonly header?: readonly string[];
  /** Origins that bytes may come from besides the server's own. */
  readonly trust?: readonly string[];
  /** Bearer token of every request. */
  readonly token?: string | undefined;
  /** Seconds for which an open stream is watched. */
  readonly watch?: number;
  /** One JSON object. */
  readonly json?: boolean;
  readonly signal: AbortSignal;
}

/**
 * `sluice doctor`: diagnoses why transfers with a server fail on this machine, one sentence each, and fails if there is
 * any.
 */
export async function doctorCommand(server: string, options: DoctorOptions): Promise<void> {
  const { header = [], trust = [], watch, token, json, signal } = options;
  ensureTrust(trust);
  const headers = headersFrom(header);
  const url = addressOf(server);
  await useNetwork(url, options);
  const warning = portWarning(url);
  if (warning !== undefined) note(warning);
  const diagnosis = await examine(url, {
    token,
    headers,
    trustedOrigins: trust,
    watchMs: watch === undefined ? undefined : watch * 1_000,
    signal,
  });
  const { findings, isComplete } = diagnosis;
  if (json) await print(printableJson(diagnosis));
  else for (const line of linesOf(diagnosis)) await print(printable(line));
  if (findings.length > 0)
    throw fault(
      "internal",
      findings.length === 1 ? "one problem found" : `${findings.length} problems found`,
      isComplete
        ? "fix it and run the same command again"
        : "fix it and run again: what depends on it was not checked",
    );
}

function linesOf({ server, findings }: Diagnosis): string[] {
  const lines = findings.map(({ cause, message }) => `${cause}: ${message}`);
  if (server) {
    const { name = "the server", revision = "an unknown revision", hasStreaming } = server;
    const way = hasStreaming ? "streams its resources" : "gives resources within JSON";
    lines.unshift(
      `${name} speaks MCP ${revision} and ${server.hasResources ? way : "has no resources"}`,
    );
  }
  if (findings.length === 0) lines.push("no problems found");
  return lines;
}

function addressOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "")
    throw fault("invalid_argument", "not a server URL", "write it like http://127.0.0.1:2532/mcp");
  return url;
}
