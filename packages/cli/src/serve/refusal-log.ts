import { printable } from "../terminal/print.ts";

/** A request without the token of the server. */
interface RefusedRequest {
  /** Address of the peer: the client, or the proxy in front. */
  readonly address: string | undefined;
  /** What was asked for: the kind of route, never a URL. */
  readonly kind: string;
  /** It carried another token, rather than none. */
  readonly hasToken: boolean;
}

/** Tells the operator of refused requests. */
export interface RefusalLog {
  add(refusal: RefusedRequest): void;
  /** Logs how many were suppressed. */
  close(): void;
}

const most = 20;
const windowMs = 60_000;

/** Writes at most 20 lines in a minute; how many more there were is in the first line of a later minute, or at the end. */
export function createRefusalLog(
  write: (line: string) => void,
  now: () => number = Date.now,
): RefusalLog {
  let began = -Infinity;
  let logged = 0;
  let suppressed = 0;

  function tellUntold(): void {
    if (suppressed > 0) write(`${timeOf(now())} ${suppressed} more requests refused`);
    suppressed = 0;
  }

  return {
    add({ address, kind, hasToken }) {
      if (now() - began >= windowMs) {
        tellUntold();
        began = now();
        logged = 0;
      }
      if (logged >= most) {
        suppressed++;
        return;
      }
      logged++;
      const what = hasToken ? "another token" : "no token";
      write(
        `${timeOf(now())} ${printable(address ?? "unknown address")} ${kind}: refused, ${what}`,
      );
    },
    close: tellUntold,
  };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
