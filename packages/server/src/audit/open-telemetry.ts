import {
  context,
  metrics,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Histogram,
  type Meter,
  type Tracer,
} from "@opentelemetry/api";
import { definedMembers, TREE_METHOD } from "@sluice/core/internal";
import type { AuditAction, AuditRecord } from "./audit-record.ts";
import type { CarrierReader, Telemetry } from "./telemetry.ts";

/** Options of {@link createTelemetry}. */
export interface TelemetryOptions {
  /** Default: `trace.getTracer("@sluice/server")`. */
  readonly tracer?: Tracer;
  /** Default: `metrics.getMeter("@sluice/server")`; make the telemetry after the SDK has been started. */
  readonly meter?: Meter;
}

const names: Readonly<Record<AuditAction, string>> = {
  list: "resources/list",
  templates: "resources/templates/list",
  read: "resources/read",
  subscribe: "resources/subscribe",
  stream: "resources/stream",
  tree: TREE_METHOD,
  completion: "completion/complete",
  link: "sluice.link",
  download: "sluice.download",
  upload: "sluice.upload",
};

/** Boundaries that the semantic conventions advise, in seconds. */
const explicitBucketBoundaries = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/**
 * Spans and metrics of a Sluice over the OpenTelemetry API, named as the semantic conventions for MCP
 * say where they say anything. A call belongs to the trace in its `_meta` (SEP-414), a download to the span that
 * is active, such as that of an HTTP instrumentation, else to the trace in its headers.
 */
export function createTelemetry(options: TelemetryOptions = {}): Telemetry {
  const { tracer = trace.getTracer(scope), meter = metrics.getMeter(scope) } = options;
  const durationOf = (name: string, description: string): Histogram =>
    meter.createHistogram(name, { unit: "s", advice: { explicitBucketBoundaries }, description });
  const operations = durationOf(
    "mcp.server.operation.duration",
    "Calls, from the request to the last byte of the answer",
  );
  const downloads = durationOf(
    "sluice.download.duration",
    "Requests to download URLs, from the request to the last byte",
  );
  const uploads = durationOf(
    "sluice.upload.duration",
    "Steps of uploads, from the request to the last byte",
  );
  const sentBytes = meter.createCounter("sluice.transfer.io", {
    unit: "By",
    description: "Bytes of resources handed over",
  });
  const streams = meter.createUpDownCounter("sluice.streams.active", {
    unit: "{stream}",
    description: "Streams and reads that are open",
  });

  return {
    countStreams: (change) => streams.add(change),
    runApart: (work) => context.with(ROOT_CONTEXT, work),
    begin(facts, carrier) {
      const { action, uri, revision } = facts;
      const isCall = action !== "download" && action !== "upload";
      // making a link is not a method of MCP
      const method = isCall && action !== "link" ? { "mcp.method.name": names[action] } : {};
      const { parent, links } = parentOf(carrier, isCall);
      const attributes: Attributes = definedMembers({
        ...method,
        "sluice.revision": revision,
        "mcp.resource.uri": uri,
      });
      const span = tracer.startSpan(
        names[action],
        { kind: SpanKind.SERVER, attributes, links },
        parent,
      );
      const count = (record: AuditRecord): void => {
        const { bytes, durationMs } = record;
        const labels = labelsOf(record);
        const seconds = durationMs / 1_000;
        if (isCall) operations.record(seconds, { ...labels, ...method });
        else (action === "download" ? downloads : uploads).record(seconds, labels);
        if (bytes > 0 && action !== "upload") sentBytes.add(bytes, labels);
      };
      return {
        run: (work) => context.with(trace.setSpan(parent, span), work),
        // a span that is not ended is not exported
        count,
        end(record) {
          span.setAttributes({ ...labelsOf(record), ...detailsOf(record) });
          if (record.outcome === "failed") span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
          if (record.count === undefined) count(record);
        },
      };
    },
  };
}

const scope = "@sluice/server";

/** What metrics are told apart by: few values, none of them of a client's choice. */
function labelsOf({ outcome, reason, mode }: AuditRecord): Attributes {
  const isError = outcome === "denied" || outcome === "failed" || outcome === "aborted";
  return definedMembers({
    "sluice.outcome": outcome,
    "error.type": isError ? (reason ?? outcome) : undefined,
    "sluice.delivery.mode": mode,
  });
}

function detailsOf(record: AuditRecord): Attributes {
  const { id, bytes, uri, principal, grant, shown, withheld, count, address } = record;
  return definedMembers({
    "sluice.audit.id": id,
    "sluice.bytes": bytes,
    "mcp.resource.uri": uri,
    "enduser.pseudo.id": principal,
    "sluice.grant": grant,
    "sluice.list.shown": shown,
    "sluice.list.withheld": withheld,
    "sluice.refusals": count,
    "client.address": address,
  });
}

/** The trace that a request names, and the span that is active beside it, if that is of another one. */
function parentOf(carrier: CarrierReader, isCall: boolean) {
  const ambient = context.active();
  const active = trace.getSpanContext(ambient);
  if (active && !isCall) return { parent: ambient, links: [] };
  const sentContext: Context = propagation.extract(ROOT_CONTEXT, carrier, {
    get: (read, name) => read(name),
    keys: () => ["traceparent", "tracestate", "baggage"],
  });
  const remote = trace.getSpanContext(sentContext);
  if (!remote) return { parent: ambient, links: [] };
  const baggage = propagation.getBaggage(sentContext);
  const parent = trace.setSpanContext(
    baggage ? propagation.setBaggage(ambient, baggage) : ambient,
    remote,
  );
  return { parent, links: active ? [{ context: active }] : [] };
}
