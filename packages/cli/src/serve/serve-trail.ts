import { SluiceError } from "@sluice/core";
import type { AuditRecord, SluiceOptions } from "@sluice/server";
import { openAuditFile, type AuditFile } from "@sluice/server/node";
import { errnoOf, fault } from "../terminal/failure.ts";
import { note, printable } from "../terminal/print.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";

/** Where a trail is kept, and the address that the server has listened on already. */
interface TrailPlace {
  /** Its file; `false` for none. Default: one of the address, in the user's state folder. */
  readonly audit?: string | false;
  readonly host: string;
  readonly port: number;
}

/** The trail that was asked for, or the one of this address; none with `--no-audit`. */
export async function openTrail({ audit, host, port }: TrailPlace): Promise<AuditFile | undefined> {
  if (audit === false) return undefined;
  try {
    return await openAuditFile({
      ...(audit === undefined ? { name: `${host}_${port}` } : { path: audit }),
      onWarning: (message) => note(`sluice: ${printable(message)}`),
    });
  } catch (error) {
    if (SluiceError.is(error) && error.code === "corrupt")
      throw fault(
        "invalid_argument",
        audit === undefined
          ? error.message
          : `${audit} is not an audit file, is a link, or its end was changed`,
        "check it with `sluice audit verify`, or name another file",
      );
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    const file = audit ?? (error as NodeJS.ErrnoException).path;
    throw fault(
      "invalid_argument",
      `cannot write to ${file} (${errno})`,
      audit === undefined ? "name a file with --audit, or pass --no-audit" : "name another file",
    );
  }
}

/** The log always tells of transfers; a record of the file is kept before anything is sent. */
export function auditOf(trail: AuditFile | undefined): NonNullable<SluiceOptions["audit"]> {
  if (!trail) return logTransfer;
  return {
    required: true,
    sink(record) {
      logTransfer(record);
      return trail.sink(record);
    },
  };
}

function logTransfer(record: AuditRecord): void {
  const { action, outcome, reason, uri, bytes, durationMs, count } = record;
  if (outcome === "begun") return;
  const what = uri === undefined ? action : `${action} ${printable(uri)}`;
  const how = reason === undefined ? outcome : `${outcome} (${reason})`;
  const times = count === undefined ? "" : `, ${count} more`;
  const size = outcome === "issued" || bytes === 0 ? "" : `, ${formatBytes(bytes)}`;
  note(`${what}: ${how}${times}${size} in ${formatDuration(durationMs)}`);
}
