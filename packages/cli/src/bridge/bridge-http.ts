import { once } from "node:events";
import type { RequestListener } from "node:http";
import type { ResultLinks } from "@sluice/bridge";
import { createHttpHosts, type HttpHosts, type OpenedServer } from "@sluice/bridge/hosts";
import { definedMembers, isLoopbackHost } from "@sluice/core/internal";
import { createRoutedHandler, createRouter, withRoutes } from "@sluice/transport-http/internal";
import { drainServer, toNodeHandler } from "@sluice/transport-http/node";
import { portWarning } from "../hosts/cloud-port.ts";
import { headersFrom } from "../server-calls/headers.ts";
import { useNetwork } from "../server-calls/server-rules.ts";
import { fault } from "../terminal/failure.ts";
import {
  beginToServe,
  endpointOf,
  listen,
  portOf,
  createAuthenticate,
  admitByToken,
} from "../serve/listen.ts";
import { ensureNoProbe } from "../serve/probes.ts";
import { createRefusalLog, type RefusalLog } from "../serve/refusal-log.ts";
import { defaultPort, ensureGuarded } from "../serve/serve-options.ts";
import { note, print, printable } from "../terminal/print.ts";
import type { BridgeCommandOptions } from "./bridge-options.ts";
import { openBehind, type ServerBehind } from "./bridged-server.ts";
import { openServedResults, type ServedResults } from "./served-results.ts";

/** With a connection each for a URL, with a process each for a program. */
const maxSessions = { http: 1_000, process: 100 };
/** Not every host opens another session when its own has ended. */
const idleMs = 86_400_000;
const drainMs = 10_000;

/** Serves hosts over HTTP, in front of a server, until `signal`. */
export async function serveBridge(
  server: ServerBehind,
  options: BridgeCommandOptions,
): Promise<void> {
  const { host = "127.0.0.1", port = defaultPort, publicUrl, token, signal } = options;
  const { allowAnonymous = false, origin: origins, resultsTo, maxHeld, inline, spool } = options;
  ensureGuarded(
    { host, publicUrl, token, allowAnonymous },
    { opened: "the server behind", use: "call it" },
  );
  if (publicUrl !== undefined) {
    ensureEndpoint(new URL(publicUrl));
    ensureNoProbe(publicUrl);
  }
  await useNetwork(server.url, options);
  const access = { headers: headersFrom(options.header ?? []), token: options.serverToken };
  // what no session could open is told at once
  openBehind(server, access, undefined);
  const listener = await listen(host, port);
  const refusals = createRefusalLog(note);
  let hosts: HttpHosts | undefined;
  let results: ServedResults | undefined;
  try {
    const endpoint = publicUrl ?? endpointOf(host, portOf(listener));
    const isGuarded = token !== undefined;
    results = spool
      ? await openServedResults({ endpoint, isGuarded, resultsTo, maxHeld, inline, signal })
      : undefined;
    hosts = createHttpHosts({
      open: async ({ headers, authInfo }) => {
        const header = (name: string): string | undefined => headers.get(name) ?? undefined;
        return openSession(server, access, await results?.linksFor({ header, authInfo }));
      },
      // all hosts share the checked token
      caller: () => "",
      sessions: { perProcess: maxSessions[server.kind], idleMs },
      onNote: (line) => note(`sluice: ${printable(line)}`),
    });
    beginToServe(listener, requestsOf(hosts, { endpoint, origins, token, refusals, results }));
    await print(endpoint);
    note(`Bridging to ${printable(server.name)}${token === undefined ? "" : ", token needed"}`);
    if (server.kind === "process") note("  each session starts a process of its own");
    const warning = portWarning(new URL(endpoint));
    if (warning !== undefined) note(warning);
    note("Ctrl-C ends it.");
    if (!signal.aborted) await once(signal, "abort");
    note("Ending …");
  } finally {
    const { cut } = await drainServer(listener, { deadlineMs: drainMs });
    if (cut > 0) note(`Cut off: ${cut} that took longer than ${drainMs / 1_000} s`);
    await hosts?.close();
    await results?.close();
    refusals.close();
  }
}

/** A token never goes over plain http to another machine. */
function ensureEndpoint({ protocol, hostname, search, hash }: URL): void {
  const isSafe = protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname));
  if (!isSafe || search !== "" || hash !== "")
    throw fault(
      "invalid_argument",
      "--public-url must be an https address without query and fragment",
      "pass the address of the TLS proxy in front",
    );
}

/** The server side of one session. `results` takes large ones out of its messages; without it they pass as they are. */
function openSession(
  server: ServerBehind,
  access: Parameters<typeof openBehind>[1],
  results: ResultLinks | undefined,
): OpenedServer {
  const upstream = openBehind(server, access, results);
  return {
    upstream: results?.watch(upstream) ?? upstream,
    hooks: results?.hooks,
    close: () => results?.close(),
  };
}

interface HostGate {
  /** URL of the endpoint as hosts see it. */
  readonly endpoint: string;
  /** Web origins besides its own whose pages may use it. */
  readonly origins: readonly string[] | undefined;
  readonly token: string | undefined;
  readonly refusals: RefusalLog;
  readonly results: ServedResults | undefined;
}

/** `Host`, `Origin` and the token are checked before a message is read. */
function requestsOf(
  hosts: HttpHosts,
  { endpoint, origins, token, refusals, results }: HostGate,
): RequestListener {
  const { hostname } = new URL(endpoint);
  const router = createRouter(
    { endpoint: { url: endpoint.replace(/\/$/, ""), isLoopback: isLoopbackHost(hostname) } },
    definedMembers({ origins }),
  );
  const routes = results ? withRoutes(router, results.handler.router.routes) : router;
  const routed = createRoutedHandler(routes, (request, given) => hosts.fetch(request, given));
  const { maxRequestBodySize } = hosts;
  const authenticate =
    token === undefined ? undefined : createAuthenticate(admitByToken(token), refusals);
  return toNodeHandler(routed, definedMembers({ authenticate, maxRequestBodySize }));
}
