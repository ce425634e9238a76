import { createHash, timingSafeEqual } from "node:crypto";

const maxBytes = 1024 * 1024;

/** Settings of {@link createNotifications}. */
export interface NotificationsOptions {
  /** The secret that the subscription was created with (`clientState`, at most 128 characters). */
  readonly clientState: string;
}

/** The receiving end of a Graph subscription. Hand it to `createGraphBackend`, whose watches then look at once. */
export interface Notifications {
  /**
   * Answers a request to the subscription's `notificationUrl`: the handshake with the token that
   * it brings, notifications with 202. Wrong or missing `clientState` is 403, anything else 400,
   * 405 or 413. Nothing is waited for: Graph gives three seconds.
   */
  handle(request: Request): Promise<Response>;
  /** Calls back after each accepted notification until the returned function is called. */
  onChange(listener: () => void): () => void;
}

/**
 * Creates the receiving end. A notification carries no data: it only says that a look is worth
 * while, so a forged one could cost requests and nothing more.
 */
export function createNotifications({ clientState }: NotificationsOptions): Notifications {
  const listeners = new Set<() => void>();
  const isOurs = (given: unknown): boolean =>
    typeof given === "string" && timingSafeEqual(digest(given), digest(clientState));

  return {
    async handle(request) {
      if (request.method !== "POST") return new Response(undefined, { status: 405 });
      // decoded, as plain text: foreign text must not become a page of our origin
      const token = new URL(request.url).searchParams.get("validationToken");
      if (token !== null)
        return new Response(token.slice(0, 4096), {
          headers: { "content-type": "text/plain", "x-content-type-options": "nosniff" },
        });
      const text = await readText(request);
      if (text === undefined) return new Response(undefined, { status: 413 });
      const notifications = parse(text);
      if (notifications === undefined) return new Response(undefined, { status: 400 });
      if (!notifications.some((one) => isOurs(one?.clientState)))
        return new Response(undefined, { status: 403 });
      for (const listener of listeners) listener();
      return new Response(undefined, { status: 202 });
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

async function readText(request: Request): Promise<string | undefined> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.byteLength;
    if (bytes > maxBytes) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function parse(text: string): readonly ({ clientState?: unknown } | undefined)[] | undefined {
  try {
    const { value } = JSON.parse(text) as { value?: unknown };
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
