import {
  Client,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { streamingCapabilities, withStreaming } from "@sluice/client";
import { SluiceError, tlsFault, type SluiceErrorCode } from "@sluice/core";
import type { FileSender } from "@sluice/client/uploads";
import { createWebSocketTransport } from "@sluice/transport-ws/client/node";
import { boundAnswers } from "../serve/bound-answers.ts";
import { fault } from "./failure.ts";
import { isLoopbackHost } from "../serve/loopback.ts";
import { version } from "../terminal/version.ts";

/** How to reach a server. */
export interface ConnectOptions {
  /** Bearer token. */
  readonly token?: string | undefined;
  readonly signal: AbortSignal;
}

/** Connects to the MCP server at `address`; close the client when done. `files` answers requests for files. */
export async function connect(
  address: string,
  options: ConnectOptions,
  files?: Pick<FileSender<never>, "extend">,
): Promise<Client> {
  const { token, signal } = options;
  const url = parseAddress(address, token);
  const transport = transportTo(url, token);
  const client = new (files?.extend(Client) ?? Client)(
    { name: "sluice", version },
    { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
  );
  // the SDK's signal is one for requests, of which a transport that opens a connection first knows nothing
  const stop = (): void => void transport.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    const connecting = (): Promise<void> => client.connect(transport, { signal });
    await translating(address, signal, () => unlessAborted(connecting(), signal));
  } finally {
    signal.removeEventListener("abort", stop);
  }
  return client;
}

function transportTo(url: URL, token: string | undefined): Transport {
  if (url.protocol.startsWith("ws"))
    return createWebSocketTransport(url, token === undefined ? {} : { token });
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const streaming = withStreaming();
  return new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => boundAnswers(await streaming(input, init)),
    requestInit: { headers },
  });
}

function parseAddress(address: string, token: string | undefined): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (
    url === undefined ||
    !/^(?:https?|wss?):$/.test(url.protocol) ||
    url.username !== "" ||
    url.password !== ""
  )
    throw fault(
      "invalid_argument",
      `${JSON.stringify(address)} is no server address`,
      "write it like http://127.0.0.1:2532/mcp",
    );
  const isClear = url.protocol === "http:" || url.protocol === "ws:";
  if (token !== undefined && isClear && !isLoopbackHost(url.hostname))
    throw fault(
      "untrusted",
      `the token would travel to ${url.host} in the clear`,
      `use the server's ${url.protocol.replace(":", "s")} address`,
    );
  return url;
}

/** Runs a call of the SDK's client; what it throws becomes a `SluiceError` that names the server. */
export async function translating<T>(
  address: string,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  try {
    return await call();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (SluiceError.is(error)) throw error;
    throw sdkFault(address, error);
  }
}

/** The end of `work`, or the abort: the SDK does not look at a signal at every step of a connection. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function sdkFault(address: string, error: unknown): SluiceError {
  const ours = causesOf(error).find((cause) => SluiceError.is(cause));
  const known = ours ?? tlsFault("client", new URL(address), error);
  if (known) return known;
  const [code, what] = causeOf(error, new URL(address));
  return new SluiceError(code, `${address} ${what}`, { cause: error });
}

function causeOf(error: unknown, { protocol }: URL): readonly [SluiceErrorCode, string] {
  const status = statusOf(error);
  if (status === 401) return ["unauthenticated", "wants a valid token"];
  if (status === 403) return ["permission_denied", "denies access"];
  if (status === 429) return ["throttled", "is busy"];
  if (status !== undefined && status >= 500) return ["unavailable", `answers HTTP ${status}`];
  if (status !== undefined) return ["protocol", `answers HTTP ${status}, not MCP`];
  const errno = errnoOf(error);
  if (errno !== undefined && protocol === "http:" && cutCodes.test(errno))
    return ["unavailable", `breaks off (${errno}): is it an https: address?`];
  if (errno !== undefined) return ["unavailable", `cannot be reached (${errno})`];
  if ((error as { code?: unknown }).code === "REQUEST_TIMEOUT")
    return ["timeout", "does not answer"];
  return ["protocol", `does not speak MCP (${messageOf(error)})`];
}

/** What comes of plain HTTP to a port that speaks TLS. */
const cutCodes = /^(?:HPE_[A-Z_]+|HTTPParserError|UND_ERR_SOCKET|ECONNRESET|EPIPE)$/;

/** An error and what caused it: an SDK hides a fault of its fetch below errors of its own. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let at = error; at instanceof Error && causes.length < mostCauses; at = at.cause)
    causes.push(at);
  return causes;
}

const mostCauses = 8;

/** HTTP status that the SDK put into one of its errors. */
function statusOf(error: unknown): number | undefined {
  const data = (error as { data?: { status?: unknown } }).data;
  return typeof data?.status === "number" ? data.status : undefined;
}

/** Code of the network fault below an error, such as ECONNREFUSED; for an answer that is no HTTP perhaps only its name. */
function errnoOf(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (typeof code === "string" && /^(E[A-Z]+|UND_ERR_[A-Z_]+|HPE_[A-Z_]+)$/.test(code))
      return code;
    // on Node 24 such a fault has a name and no code
    if (at.name === "HTTPParserError") return at.name;
    if (at instanceof AggregateError && at.errors[0]) return errnoOf(at.errors[0]);
  }
  return undefined;
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 200);
}
