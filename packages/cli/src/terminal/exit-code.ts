import type { SluiceErrorCode } from "@sluice/core";

/** How a run ends. */
export type Outcome =
  | "ok"
  | "failed"
  | "usage"
  | "notFound"
  | "denied"
  | "network"
  | "integrity"
  | "target"
  | "refused"
  | "interrupted"
  | "terminated";

/** What scripts see of an outcome. The help text and docs/reference/cli.md print this table. */
export const exitCodes: Readonly<Record<Outcome, { status: number; meaning: string }>> = {
  ok: { status: 0, meaning: "done" },
  failed: { status: 1, meaning: "a fault in the server or in sluice itself" },
  usage: { status: 2, meaning: "the command line or the URI is wrong" },
  notFound: { status: 3, meaning: "the server has no such resource" },
  denied: { status: 4, meaning: "the token is missing, wrong or not enough" },
  network: { status: 5, meaning: "the server is down, slow or busy; run again to resume" },
  integrity: { status: 6, meaning: "the bytes are not those promised" },
  target: { status: 7, meaning: "the file exists, or the disk is full or refuses" },
  refused: { status: 8, meaning: "too large, an untrusted address, or nothing was sent" },
  interrupted: { status: 130, meaning: "Ctrl-C; run again to resume" },
  terminated: { status: 143, meaning: "SIGTERM; run again to resume" },
};

/** What each error code means to a script. */
export const outcomes: Readonly<Record<SluiceErrorCode, Outcome>> = {
  not_found: "notFound",
  permission_denied: "denied",
  unauthenticated: "denied",
  invalid_argument: "usage",
  unsupported: "refused",
  precondition_failed: "integrity",
  range_not_satisfiable: "integrity",
  too_large: "refused",
  expired: "denied",
  already_exists: "target",
  no_space: "target",
  throttled: "network",
  unavailable: "network",
  timeout: "network",
  interrupted: "network",
  corrupt: "integrity",
  untrusted: "refused",
  protocol: "refused",
  internal: "failed",
};

/** The table as lines of text: status and meaning, aligned. */
export function formatExitCodes(): string {
  return Object.values(exitCodes)
    .map(({ status, meaning }) => `  ${String(status).padStart(3)}  ${meaning}`)
    .join("\n");
}
