import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/internal";
import { membersOf, type Members } from "../messages/messages.ts";
import type { HostQuestions } from "./consent.ts";

interface NamedLoopbackOptions {
  /** Name of the server, for people. */
  readonly serverName: string;
  /** Those need no question. */
  readonly trustedOrigins: readonly string[];
  readonly questions: HostQuestions;
}

/**
 * At most 64 origins on this machine that a process named where only a server writes: in links to resources and in
 * structured content. A text may be of a page that its tool fetched, and names nothing.
 */
export class NamedLoopback {
  readonly #options: NamedLoopbackOptions;
  readonly #namedOrigins = new Set<string>();
  /** What the user says of an origin; calls share one question. */
  readonly #decisions = new Map<string, Promise<boolean>>();

  constructor(options: NamedLoopbackOptions) {
    this.#options = options;
  }

  /** Remembers the origins in the result of a tool. */
  learn(result: Members): void {
    for (const address of addressesIn(result)) {
      const origin = loopbackOf(address)?.origin;
      if (origin === undefined) continue;
      this.#namedOrigins.add(origin);
      for (const oldest of this.#namedOrigins)
        if (this.#namedOrigins.size > maxNamed) this.#namedOrigins.delete(oldest);
    }
  }

  /**
   * What stands for the endpoint of a process when bytes come from or go to `address`; undefined for one elsewhere. Asks the
   * user once for each named origin, and rejects with `permission_denied` without a yes, and with `untrusted` for others.
   */
  async endpointFor(
    address: string,
    { request, signal }: { readonly request: JSONRPCRequest; readonly signal: AbortSignal },
  ): Promise<URL | undefined> {
    const loopback = loopbackOf(address);
    if (!loopback || this.#isTrusted(loopback.origin)) return loopback;
    if (!this.#namedOrigins.has(loopback.origin))
      throw new SluiceError(
        "untrusted",
        `bridge: ${loopback.origin} is a program on this machine that the server did not name; a user who trusts it starts the bridge with --trust ${loopback.origin}.`,
      );
    if (await this.#isAllowed(loopback.origin, request, signal)) return loopback;
    throw new SluiceError(
      "permission_denied",
      `bridge: the user allows no files from or to ${loopback.origin}`,
    );
  }

  async #isAllowed(origin: string, request: JSONRPCRequest, signal: AbortSignal): Promise<boolean> {
    for (let open = this.#decisions.get(origin); open; open = this.#decisions.get(origin))
      try {
        return await abortable(open, signal);
      } catch {
        // the call that asked is over: this one asks
        signal.throwIfAborted();
        if (this.#decisions.get(origin) === open) this.#decisions.delete(origin);
      }
    const message = `${this.#options.serverName} names ${origin}, a program on this machine. May files come from it and go to it?`;
    const advice = `start the bridge with --trust ${origin}.`;
    const decision = this.#options.questions.agree(request, message, { signal, advice });
    this.#decisions.set(origin, decision);
    return decision;
  }

  #isTrusted(origin: string): boolean {
    return this.#options.trustedOrigins.some(
      (trusted) => URL.canParse(trusted) && new URL(trusted).origin === origin,
    );
  }
}

const maxNamed = 64;

/** Where a process on this machine lets bytes come from or go to; undefined for any other address. */
export function loopbackOf(url: unknown): URL | undefined {
  if (typeof url !== "string" || !URL.canParse(url)) return undefined;
  const { origin, hostname } = new URL(url);
  return loopbackHosts.has(hostname) ? new URL(origin) : undefined;
}

const loopbackHosts: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"]);

/** Strings of a result that are only an address, if its server wrote them itself. */
function* addressesIn({ content, structuredContent }: Members): Generator {
  for (const block of Array.isArray(content) ? (content as unknown[]).map(membersOf) : [])
    if (block["type"] === "resource_link") yield block["uri"];
  const open: unknown[] = [structuredContent];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value === "string") yield value;
    else if (typeof value === "object" && value !== null)
      for (const member of Object.values(value)) open.push(member);
  }
}
