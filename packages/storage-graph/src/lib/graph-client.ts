import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/internal";
import { staleConnection } from "@sluice/core/internal/node";
import { Agent, type Dispatcher } from "undici";
import type { Address } from "./address.ts";
import { DownloadHosts, type HostRequest } from "./download/download-hosts.ts";
import { type GraphAnswer, createCause, textOf, toSluiceError } from "./graph-error.ts";
import type { TokenSource } from "./tokens.ts";

/** Longest answer of Graph that is read; a page of 200 items is far below. */
const maxAnswerBytes = 16 * 1024 * 1024;

interface GraphRequest {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Path below the version (`/drives/…`), or a link of Graph as it came. */
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Statuses that are not failures. */
  readonly expect: readonly number[];
  /** How messages start. */
  readonly operation: string;
  readonly signal?: AbortSignal | undefined;
}

/** A request to a URL that carries its own permission: nothing of ours goes with it. */
interface AnonymousRequest {
  readonly method: "GET" | "PUT" | "DELETE";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly operation: string;
  readonly signal?: AbortSignal | undefined;
}

/** A GET of a URL that carries its own permission. */
type SignedDownload = Omit<AnonymousRequest, "method" | "body">;

interface Sent extends Omit<AnonymousRequest, "method" | "url" | "body"> {
  readonly method: Dispatcher.HttpMethod;
  readonly body?: Uint8Array | string | undefined;
}

/** Speaks with Graph and with the hosts that it points to. */
export interface GraphClient {
  /** Asks Graph with the bearer; a refused token is renewed once. */
  ask(request: GraphRequest): Promise<GraphAnswer>;
  /** Asks another host, without the bearer. The body must be read or destroyed. */
  askAnonymously(request: AnonymousRequest): Promise<Dispatcher.ResponseData>;
  /** Gets bytes from another host, without the bearer. The response must be read or destroyed. */
  download(request: SignedDownload): Promise<IncomingMessage>;
  close(): Promise<void>;
}

/** Status and headers of a response, and its body as a stream of Node. */
interface UnreadAnswer {
  readonly statusCode: number;
  readonly headers: GraphAnswer["headers"];
  readonly body: Readable;
}

/** Where the requests of one backend go. */
export interface GraphRoute {
  readonly client: GraphClient;
  readonly address: Address;
}

/** Settings of {@link createGraphClient}. */
export interface GraphClientOptions {
  /** Scheme and host of Graph. */
  readonly baseUrl: string;
  readonly tokens: TokenSource;
  readonly userAgent: string;
}

/** Creates the one place from which requests leave. Only requests to the origin of `baseUrl` carry the bearer. */
export function createGraphClient(options: GraphClientOptions): GraphClient {
  const { baseUrl, tokens, userAgent } = options;
  const agent = new Agent({ connect: { timeout: 10_000 } });
  const hosts = new DownloadHosts();
  const ownHeaders = { "user-agent": userAgent, "accept-encoding": "identity" };

  const send = async (
    url: string,
    { method, headers, body, operation, signal }: Sent,
  ): Promise<Dispatcher.ResponseData> => {
    const place = placeOf(url, operation, signal);
    const response = await reach(operation, signal, () =>
      agent.request({
        ...place,
        method,
        headers: { ...ownHeaders, ...headers },
        body: body ?? null,
        signal: signal ?? null,
      }),
    );
    // a body that is destroyed emits an error, which needs a listener
    response.body.on("error", () => {});
    return response;
  };

  /** Throws `untrusted` for a URL that no request of ours may use. */
  const placeOf = (
    url: string,
    operation: string,
    signal: AbortSignal | undefined,
  ): Pick<HostRequest, "origin" | "path"> => {
    signal?.throwIfAborted();
    // taken apart as text: parsing and writing it again could change an opaque URL
    const [, origin, path] = /^(https?:\/\/[^/?#]+)(\/[^#]*)$/i.exec(url) ?? [];
    if (origin === undefined || path === undefined || isInsecure(origin, baseUrl))
      throw new SluiceError(
        "untrusted",
        `${operation}: the service gave an address that is not usable`,
      );
    return { origin, path };
  };

  return {
    async ask({ method = "GET", target, headers, body, expect, operation, signal }) {
      const url = target.startsWith("/") ? `${baseUrl}/v1.0${target}` : target;
      // a link may come from a confused answer, and it would take the bearer along
      if (!url.startsWith(`${baseUrl}/`))
        throw new SluiceError("untrusted", `${operation}: a link leads away from the service`);
      const attempt = async (token: string): Promise<GraphAnswer> => {
        const allHeaders = { ...headers, authorization: `Bearer ${token}` };
        const response = await send(url, { method, headers: allHeaders, body, operation, signal });
        return readAnswer(response, operation, signal);
      };
      let token = await tokens.get(signal);
      let answer = await attempt(token);
      if (answer.status === 401) {
        token = await tokens.renew(token, claimsOf(answer), signal);
        answer = await attempt(token);
      }
      if (!expect.includes(answer.status)) throw toSluiceError(answer, operation);
      // a page of something else; Graph itself answers these with JSON
      if (answer.body === undefined && (answer.status === 200 || answer.status === 201))
        throw new SluiceError("unavailable", `${operation}: the answer could not be read`);
      return answer;
    },

    askAnonymously: ({ url, ...request }) => send(url, request),

    async download({ url, headers, operation, signal }) {
      const { origin, path } = placeOf(url, operation, signal);
      const allHeaders = { ...ownHeaders, ...headers };
      return reach(operation, signal, () =>
        hosts.get({ origin, path, headers: allHeaders, signal }),
      );
    },

    async close() {
      hosts.close();
      await agent.destroy();
    },
  };
}

/** Throws errors of the network as `unavailable`. */
async function reach<T>(
  operation: string,
  signal: AbortSignal | undefined,
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send();
  } catch (error) {
    signal?.throwIfAborted();
    const isStale = (error as { code?: unknown } | undefined)?.code === staleConnection;
    throw new SluiceError("unavailable", `${operation}: the service could not be reached`, {
      cause: createCause(error),
      ...(isStale && { retryAfterMs: 0 }),
    });
  }
}

/** Reads what is left of a response that is not content. */
export async function readAnswer(
  { statusCode: status, headers, body }: UnreadAnswer,
  operation: string,
  signal?: AbortSignal,
): Promise<GraphAnswer> {
  try {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    const isJson = textOf(headers["content-type"])?.includes("json") === true;
    const reading = (async () => {
      for await (const part of body) {
        bytes += (part as Uint8Array).byteLength;
        if (bytes > maxAnswerBytes || !isJson) break;
        parts.push(part as Uint8Array);
      }
    })();
    await abortable(reading, signal);
    if (bytes > maxAnswerBytes) throw new Error("the answer is too long");
    const text = Buffer.concat(parts).toString();
    return { status, headers, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
  } catch (error) {
    signal?.throwIfAborted();
    throw new SluiceError("unavailable", `${operation}: the answer could not be read`, {
      cause: createCause(error),
    });
  } finally {
    body.destroy();
  }
}

/** Plain HTTP is for emulators on this machine; Graph itself never points away from HTTPS. */
function isInsecure(origin: string, baseUrl: string): boolean {
  return origin.toLowerCase().startsWith("http:") && baseUrl.startsWith("https:");
}

/** Claims that continuous access evaluation demands of the next token. */
function claimsOf({ headers }: GraphAnswer): string | undefined {
  const challenge = textOf(headers["www-authenticate"]) ?? "";
  const [, encoded] = /\bclaims="([A-Za-z0-9+/=_-]+)"/.exec(challenge) ?? [];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString();
}
