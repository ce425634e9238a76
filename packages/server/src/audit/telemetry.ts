import type { AuditFacts, AuditRecord } from "./audit-record.ts";

/** Reads a field that may carry a trace context: `traceparent`, `tracestate` or `baggage`. */
export type CarrierReader = (name: string) => string | undefined;

/** Reads what may carry a trace context out of the `_meta` of a request (SEP-414), which nothing has checked. */
export function carrierIn(meta: unknown): CarrierReader {
  return (name) => {
    const value = (meta as Record<string, unknown> | null | undefined)?.[name];
    return typeof value === "string" ? value : undefined;
  };
}

/**
 * Follows operations, for traces and metrics. `createTelemetry` of `@sluice/server/telemetry` makes
 * one over OpenTelemetry; without any, nothing is measured and nothing is paid.
 */
export interface Telemetry {
  /** An operation begins. `carrier` reads `_meta` of its request (SEP-414), or its HTTP headers. */
  begin(facts: AuditFacts, carrier: CarrierReader): TelemetrySpan;
  /** A stream took its permit, or released it. */
  countStreams(change: 1 | -1): void;
  /** Runs work that belongs to no operation, such as a watch that began with one and serves many. */
  runApart<Result>(work: () => Result): Result;
}

/** An operation that is followed. */
export interface TelemetrySpan {
  /** Runs work within the operation: its calls belong to the trace. */
  run<Result>(work: () => Result): Result;
  /** The operation has ended. A record with `count` stands for many that were counted before. */
  end(record: AuditRecord): void;
  /** The operation was a refusal like many others: it is counted, and nothing else is kept of it. */
  count(record: AuditRecord): void;
}
