import { SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/internal";
import type { AuditFacts, AuditOutcome, AuditRecord } from "./audit-record.ts";
import { readAudit, type AuditInput, type AuditSink } from "./audit-options.ts";
import { Refusals } from "./refusals.ts";
import type { CarrierReader, Telemetry, TelemetrySpan } from "./telemetry.ts";

/** Facts that the end of an operation adds. */
export interface AuditEnding {
  readonly reason?: string;
  readonly bytes?: number;
}

/** An operation that has begun. Its last record is made at the first `end` or `conclude`. */
export interface AuditEntry {
  /** Fill them in as they become known. */
  readonly facts: AuditFacts;
  /** Runs the work of the operation within its trace. */
  run<Result>(work: () => Result): Result;
  /**
   * Before bytes are sent, await this: where records are required it writes the `begun` record, and rejects with
   * `unavailable` if that fails.
   */
  recordBegun(): Promise<void> | undefined;
  /** Writes the last record without waiting: use it when nothing is left to send. */
  end(outcome: AuditOutcome, ending?: AuditEnding): void;
  /** Like `end`, but await it before the response is sent. Rejects as `recordBegun` does. */
  conclude(outcome: AuditOutcome, ending?: AuditEnding): Promise<void> | undefined;
}

/** Begins the entry of an operation; `carrier` reads the fields that may carry a trace context. */
export type BeginAudit = (facts: AuditFacts, carrier?: CarrierReader) => AuditEntry;

interface TrailOptions {
  readonly audit: AuditInput | undefined;
  readonly telemetry: Telemetry | undefined;
  readonly onError: (error: unknown) => void;
}

/** The records of one Sluice. */
export class AuditTrail {
  readonly #options: TrailOptions;
  readonly #sink: AuditSink | undefined;
  readonly #addresses: boolean;
  readonly #close: (() => Promise<void>) | undefined;
  readonly #ledger: AuditLedger;
  readonly #refusals: Refusals;
  readonly #newId = createIds();
  readonly #flushing = new Set<Promise<void>>();

  constructor(options: TrailOptions) {
    const { audit, onError } = options;
    const { sink, required, addresses, close } = readAudit(audit);
    this.#options = options;
    this.#sink = sink;
    this.#addresses = addresses;
    this.#close = close;
    this.#refusals = new Refusals(this.#newId, (record) => this.#keepMany(record));
    this.#ledger = {
      isKept: sink !== undefined,
      required,
      keep: (record) => this.#keep(record),
      countRefusal: (record) => this.#refusals.count(record),
      onError,
    };
  }

  /** Begins the entry of an operation; `carrier` reads the fields that may carry a trace context. */
  begin(given: AuditFacts, carrier?: CarrierReader): AuditEntry {
    const { uri, address } = given;
    const isAddressKnown = this.#addresses && address !== undefined;
    // set up front, because V8 is slow with objects that grow
    const facts: AuditFacts = {
      grant: undefined,
      principal: undefined,
      ...given,
      uri,
      address: isAddressKnown ? onOneLine(address).slice(0, 64) : undefined,
    };
    const safe = uri === undefined ? facts : { ...facts, uri: onOneLine(uri) };
    const span = this.#options.telemetry?.begin(safe, carrier ?? (() => undefined));
    return new OpenEntry(this.#ledger, this.#newId(), facts, span);
  }

  /** Writes what was counted up to now. Resolves when the sink has it; its errors go to `onError`. */
  async flush(): Promise<void> {
    this.#refusals.flush();
    await Promise.all(this.#flushing);
  }

  /** Closes what the records go to. Call it after the last `flush`. */
  async close(): Promise<void> {
    await this.#close?.();
  }

  #keep(record: AuditRecord): Promise<void> | undefined {
    if (!this.#sink) return undefined;
    try {
      const result: unknown = this.#sink(record);
      if (!isThenable(result)) return undefined;
      // queries of many libraries are not promises, and begin when awaited
      return within(Promise.resolve(result), {
        clock: systemClock,
        timeoutMs: sinkMs,
        expired: () => new Error(`audit: the sink did not take a record within ${sinkMs} ms`),
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Keeps a record that stands for many refusals. */
  #keepMany(record: AuditRecord): void {
    const { telemetry, onError } = this.#options;
    telemetry?.begin(record, () => undefined).end(record);
    const keeping = this.#keep(record)
      ?.catch(onError)
      .finally(() => this.#flushing.delete(keeping!));
    if (keeping) this.#flushing.add(keeping);
  }
}

interface AuditLedger {
  readonly isKept: boolean;
  readonly required: boolean;
  readonly keep: (record: AuditRecord) => Promise<void> | undefined;
  /** Counts a refusal among others; false where it is to be a record of its own. */
  readonly countRefusal: (record: AuditRecord) => boolean;
  readonly onError: (error: unknown) => void;
}

/** A class rather than closures, because every response with bytes makes one. */
class OpenEntry implements AuditEntry {
  readonly facts: AuditFacts;
  readonly #ledger: AuditLedger;
  readonly #id: string;
  readonly #span: TelemetrySpan | undefined;
  readonly #time = Date.now();
  readonly #startedAt = performance.now();
  #hasEnded = false;
  #isAdmitted = false;

  constructor(ledger: AuditLedger, id: string, facts: AuditFacts, span: TelemetrySpan | undefined) {
    this.facts = facts;
    this.#ledger = ledger;
    this.#id = id;
    this.#span = span;
  }

  run<Result>(work: () => Result): Result {
    return this.#span ? this.#span.run(work) : work();
  }

  recordBegun(): Promise<void> | undefined {
    this.#isAdmitted = true;
    const { required, keep } = this.#ledger;
    return required ? keep(this.#recordOf("begun", nothing))?.catch(throwUnrecorded) : undefined;
  }

  end(outcome: AuditOutcome, ending: AuditEnding = nothing): void {
    this.#finish(outcome, ending)?.catch(this.#ledger.onError);
  }

  conclude(outcome: AuditOutcome, ending: AuditEnding = nothing): Promise<void> | undefined {
    const keeping = this.#finish(outcome, ending);
    if (this.#ledger.required) return keeping?.catch(throwUnrecorded);
    keeping?.catch(this.#ledger.onError);
    return undefined;
  }

  #finish(outcome: AuditOutcome, ending: AuditEnding): Promise<void> | undefined {
    const { isKept, countRefusal, keep } = this.#ledger;
    if (this.#hasEnded || (!isKept && !this.#span)) return undefined;
    this.#hasEnded = true;
    const record = this.#recordOf(outcome, ending);
    if (!this.#isAdmitted && isAnonymousRefusal(record) && countRefusal(record)) {
      this.#span?.count(record);
      return undefined;
    }
    this.#span?.end(record);
    return keep(record);
  }

  #recordOf(outcome: AuditOutcome, { reason, bytes = 0 }: AuditEnding): AuditRecord {
    const { facts } = this;
    const record: Record<string, unknown> = { id: this.#id, time: this.#time };
    // `for…in` and not `Object.entries`: this runs for every response
    for (const name in facts) {
      const value = facts[name as keyof AuditFacts];
      if (value !== undefined) record[name] = value;
    }
    record["outcome"] = outcome;
    record["bytes"] = bytes;
    record["durationMs"] = performance.now() - this.#startedAt;
    if (reason !== undefined) record["reason"] = reason;
    if (facts.uri !== undefined) record["uri"] = onOneLine(facts.uri);
    return record as unknown as AuditRecord;
  }
}

const nothing: AuditEnding = {};

/**
 * Whether a record is of a caller that was not identified, and got nothing. A fault counts as anonymous only if it
 * names neither a URI nor a grant.
 */
function isAnonymousRefusal({ outcome, principal, bytes, uri, grant }: AuditRecord): boolean {
  if (principal !== undefined || bytes > 0) return false;
  if (outcome === "denied") return true;
  const isBroken = outcome === "aborted" || outcome === "failed";
  return isBroken && uri === undefined && grant === undefined;
}

const sinkMs = 5_000;

function isThenable(value: unknown): value is PromiseLike<void> {
  return typeof (value as { then?: unknown } | undefined)?.then === "function";
}

function throwUnrecorded(cause: unknown): never {
  throw new SluiceError(
    "unavailable",
    "sluice: the required audit record could not be kept, so nothing is sent",
    {
      cause,
      retryAfterMs: 1_000,
    },
  );
}

/** Ids that no other process makes: 96 random bits and a count. Cheaper than as many random bits each. */
function createIds(): () => string {
  let prefix: string | undefined;
  let count = 0;
  return () => {
    prefix ??= crypto.randomUUID().replaceAll("-", "").slice(0, 24);
    count += 1;
    return `${prefix}-${count}`;
  };
}

const maxUriLength = 4_096;

/** Text that cannot forge a second line, whether the sink writes JSON or not. */
function onOneLine(uri: string): string {
  const shortened = uri.length > maxUriLength ? uri.slice(0, maxUriLength) : uri;
  if (!breaksLine.test(shortened)) return shortened;
  return shortened.replaceAll(lineBreaks, encodeURIComponent).slice(0, maxUriLength);
}

// oxlint-disable-next-line no-control-regex -- finding control characters is the point
const breaksLine = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
// oxlint-disable-next-line no-control-regex -- the same, all of them
const lineBreaks = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;
