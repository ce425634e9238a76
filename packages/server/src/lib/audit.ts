import type { DeliveryMode, Era } from "@sluice/core/wire";

/** One line of the audit trail: who got, or did not get, which resource, and how it went. */
export interface AuditRecord {
  /** When it began, unix milliseconds. */
  readonly time: number;
  /** `read` and `stream` are the JSON-RPC methods; `download` is a request to a download URL. */
  readonly action: "read" | "stream" | "download";
  /**
   * - `complete`: every byte asked for was handed over, or there was none to send (HEAD, 304)
   * - `issued`: a download URL or a redirect was handed out
   * - `denied`: refused; `reason` says why
   * - `aborted`: the receiver went away in the middle
   * - `failed`: a fault of ours or of storage
   */
  readonly outcome: "complete" | "issued" | "denied" | "aborted" | "failed";
  /** Cause of anything but success: a `SluiceError` code, or one of `spent`, `revoked`, `changed`. */
  readonly reason?: string;
  /**
   * Opaque tag of the principal: `principalTag` of @sluice/core, without its session where there is
   * a subject. Absent for the anonymous.
   */
  readonly principal?: string;
  /**
   * Absent when the request did not get as far as naming one. As it was sent, whoever sent it, but
   * with control characters percent-encoded and no longer than 4,096 characters.
   */
  readonly uri?: string;
  /** Id of the grant, the same in the record of its issue and of each redemption. Not the token. */
  readonly grant?: string;
  /** Bytes of the resource handed over. */
  readonly bytes: number;
  readonly durationMs: number;
  /** Absent for `download`, which no longer knows. */
  readonly era?: Era;
  /** How the bytes travel. */
  readonly mode?: DeliveryMode;
}

/** Takes the records, one at a time. It must not throw; what it throws goes to `onError`. */
export type AuditSink = (record: AuditRecord) => void;

/** What is known of a transfer while it goes on. */
export type AuditFacts = { -readonly [K in keyof AuditRecord]?: AuditRecord[K] | undefined } & {
  action: AuditRecord["action"];
};

/** A transfer that has begun. Its record is written at the first `end`. */
export interface AuditEntry {
  /** What is known so far; fill it in as it becomes known. */
  readonly facts: AuditFacts;
  end(outcome: AuditRecord["outcome"], more?: { reason?: string; bytes?: number }): void;
}

/** Begins records for one sink. */
export function createAuditTrail(
  sink: AuditSink | undefined,
  onError: (error: unknown) => void,
): (facts: AuditFacts) => AuditEntry {
  return (facts) => {
    const time = Date.now();
    const startedAt = performance.now();
    let ended = false;
    return {
      facts,
      end(outcome, { reason, bytes = 0 } = {}) {
        if (ended) return;
        ended = true;
        if (!sink) return;
        const record: Record<string, unknown> = { time };
        for (const [name, value] of Object.entries(facts))
          if (value !== undefined) record[name] = value;
        Object.assign(record, { outcome, bytes, durationMs: performance.now() - startedAt });
        if (reason !== undefined) record["reason"] = reason;
        if (facts.uri !== undefined) record["uri"] = onOneLine(facts.uri);
        try {
          sink(record as unknown as AuditRecord);
        } catch (error) {
          onError(error);
        }
      },
    };
  };
}

const maxUriLength = 4_096;

/** Text that cannot forge a second line, whether the sink writes JSON or not. */
function onOneLine(uri: string): string {
  const kept = uri.slice(0, maxUriLength);
  // oxlint-disable-next-line no-control-regex -- finding control characters is the point
  const safe = kept.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, encodeURIComponent);
  return safe.slice(0, maxUriLength);
}
