import type { ServerResponse } from "node:http";
import { createByteAccount, type ByteLease, type RequestNotes } from "@sluice/server/transport";
import { ensureLimit } from "../endpoint/ensure-arguments.ts";

/** Bounds on bytes of answers of any kind that wait in memory for their readers. */
export interface UnsentLimits {
  /**
   * For one access token, and with `maxRequestsPerAddress` for one address of requests without one. Default 64 MiB. One answer
   * alone may be larger.
   */
  readonly perClient?: number;
  /** For this handler. Default 256 MiB. */
  readonly perProcess?: number;
}

/** What is noted of a request whose answer is sent here. */
export type AnswerNotes = Required<Pick<RequestNotes, "answers">> & { readonly unsent: ByteLease };

/** Makes the account of one handler: a function that opens the part of one response, which is given back when it is closed. */
export function createUnsentAccount({
  perClient = 64 * mib,
  perProcess = 256 * mib,
}: UnsentLimits = {}): (res: ServerResponse, client: string | undefined) => AnswerNotes {
  for (const limit of [perClient, perProcess]) ensureLimit("toNodeHandler", limit);
  const account = createByteAccount(perProcess);
  return (res, client) => {
    const unsent = account.open(
      client === undefined ? undefined : { name: client, limit: perClient },
    );
    const kept = new Set<() => void>();
    let isOver = res.closed;
    const close = (): void => {
      isOver = true;
      unsent.release();
      for (const release of kept) release();
      kept.clear();
    };
    if (isOver) unsent.release();
    // "close" comes when the network has taken the last byte, and when it never will
    else res.once("close", close);
    const keep = (_id: string | number, release: () => void): void => {
      if (isOver) release();
      else kept.add(release);
    };
    return { answers: { keep }, unsent };
  };
}

const mib = 2 ** 20;
