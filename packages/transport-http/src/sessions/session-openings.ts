import type {
  McpHandlerRequestOptions,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { resourceTag, SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { StateStore } from "@sluice/state";

/** What is kept of a session for other processes. */
interface SessionOpening {
  /** The `initialize` of its client. */
  readonly message: unknown;
  /** Tag of the principal that may use it. */
  readonly holder: string;
}

interface Replay {
  readonly id: string;
  readonly opening: SessionOpening;
  readonly authInfo: McpHandlerRequestOptions["authInfo"];
}

const lifeMs = 24 * 3_600_000;
/** Maximum bytes of an opening: it is kept as long as its session lasts. */
const maxBytes = 16_384;

/** Throws `too_large` for an opening of more than 16 KiB; gives it as it is kept. */
export function encodeOpening(opening: SessionOpening): Uint8Array {
  const record = new TextEncoder().encode(JSON.stringify(opening));
  if (record.byteLength > maxBytes)
    throw new SluiceError("too_large", "sessions: initialize has at most 16 KiB");
  return record;
}

const claimOf = (id: string): string => `claim of ${nameOf(id)}`;

/** The openings of sessions in a store that processes share. */
export class SharedOpenings {
  readonly #state: StateStore;

  constructor(state: StateStore) {
    this.#state = state;
  }

  /** Rejects with `too_large` above 16 KiB, and with errors of the store. */
  async keep(id: string, opening: SessionOpening, owner: string): Promise<void> {
    const record = encodeOpening(opening);
    const now = Date.now();
    await this.#state.put(nameOf(id), record, { now, expiresAt: now + lifeMs, owner });
  }

  async find(id: string): Promise<SessionOpening | undefined> {
    const record = await this.#state.get(nameOf(id), Date.now());
    if (!record) return undefined;
    const opening = JSON.parse(new TextDecoder().decode(record)) as SessionOpening;
    return opening.holder === "" ? { ...opening, holder: await this.#claimed(id) } : opening;
  }

  /** Gives an opening that nothing vouched for to a principal. False when another one has it by now. */
  async claim(id: string, holder: string, owner: string): Promise<boolean> {
    const now = Date.now();
    const terms = { now, expiresAt: now + lifeMs, owner };
    try {
      await this.#state.put(claimOf(id), new TextEncoder().encode(holder), terms);
      return true;
    } catch (error) {
      if (!SluiceError.is(error) || error.code !== "already_exists") throw error;
      return (await this.#claimed(id)) === holder;
    }
  }

  async forget(id: string): Promise<void> {
    await this.#state.take(nameOf(id), Date.now());
    await this.#state.take(claimOf(id), Date.now());
  }

  /** Says an opening to the server of another process, as its client did. */
  async replay(
    transport: WebStandardStreamableHTTPServerTransport,
    { id, opening, authInfo }: Replay,
  ): Promise<void> {
    const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };
    for (const parsedBody of [opening.message, initialized]) {
      const options = definedMembers({ parsedBody, authInfo });
      const answer = await transport.handleRequest(asRequest(id), options);
      await answer.text();
    }
  }

  async #claimed(id: string): Promise<string> {
    const record = await this.#state.get(claimOf(id), Date.now());
    return record ? new TextDecoder().decode(record) : "";
  }
}

function asRequest(id: string): Request {
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-session-id": id,
  };
  return new Request("http://localhost/", { method: "POST", headers });
}

/** A session's id is half of a credential, and clients may send ids of any length: the store has its tag. */
function nameOf(id: string): string {
  return `session ${resourceTag(id)}`;
}
