import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { isInTime } from "@sluice/core/internal";
import { problem } from "@sluice/server/internal";
import { drainBody } from "./node-body.ts";
import { Connection, connectionsOf } from "./connection.ts";
import { NodeExchange } from "./node-exchange.ts";
import { sendReply } from "../download/send-reply.ts";

/** How to drain. */
export interface DrainOptions {
  /** Milliseconds that answers under way may still take. Default 30,000. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** How a drain went. */
export interface Drained {
  /** Answers that were destroyed because they were not finished in time. */
  readonly cut: number;
}

/**
 * Ends a server that `hardenServer` was given. It accepts no connection any more, closes those without a
 * request, ends the streams of events that would never end by themselves, answers transfers that still come with 503
 * and `Retry-After`, and lets everything else finish. What is not finished at the deadline is destroyed, never ended
 * cleanly: a download goes on elsewhere with `Range`. Resolves when the connections are gone. WebSockets are
 * not its own: close their handler at the same time. Throws a `TypeError` for another server.
 */
export async function drainServer(
  server: Server,
  { deadlineMs = 30_000, signal }: DrainOptions = {},
): Promise<Drained> {
  const connections = connectionsOf(server);
  if (!connections)
    throw new TypeError(
      "drainServer: the answers of this server are not counted; call hardenServer first",
    );
  const answers = (): ServerResponse[] =>
    [...connections.values()].flatMap((each) => [...each.answers]);

  function endAll(queue: readonly ServerResponse[]): void {
    const last = queue.at(-1);
    for (const answer of queue) {
      if (answer.headersSent) continue;
      // those behind one that ends their connection would never be sent
      if (answer !== last) answer.removeHeader("Connection");
      else answer.setHeader("Connection", "close");
    }
    // a handler may have said that it is kept
    last?.once("close", () => server.closeIdleConnections());
  }

  const listeners = server.listeners("request") as RequestListener[];
  for (const listener of listeners) server.off("request", listener);
  server.on("request", (req, res) => {
    const connection = Connection.of(req.socket);
    endAll([...connection.answers, res]);
    if (!isMessage(req) || connection.isRefused) {
      connection.isRefused = true;
      return refuse(req, res);
    }
    NodeExchange.of(req).drain();
    for (const listener of listeners) listener.call(server, req, res);
  });
  const closeIdle = server.closeIdleConnections.bind(server);
  // Node takes a response that was ended for done, also when it was not sent yet, and `close` destroys it
  server.closeIdleConnections = () => {
    if (!answers().some(({ writableEnded, closed }) => writableEnded && !closed)) closeIdle();
  };
  const closed = new Promise<void>((resolve) => void server.once("close", resolve));
  server.close();
  for (const connection of connections.values()) endAll([...connection.answers]);
  for (const { req } of answers()) NodeExchange.of(req).drain();
  // Node waits for a first request as it would for the rest of one; what has come by now is read in the next turn
  const closeSilent = (): void => {
    for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy();
  };
  setImmediate(() => setImmediate(closeSilent));

  await isInTime(closed, deadlineMs, signal);
  const cut = answers().length;
  server.closeAllConnections();
  // the handler of a connection that was upgraded closes it
  await isInTime(closed, lastWordMs);
  return { cut };
}

/** What belongs to a call, or is one: the client could not know of the drain, and may not send it again. */
function isMessage({ method, headers }: IncomingMessage): boolean {
  return method === "POST" && /^application\/json\b/i.test(headers["content-type"] ?? "");
}

/** Nothing of it was carried out, so that another process can do it. */
function refuse(req: IncomingMessage, res: ServerResponse): void {
  const reply = problem(503, { reason: "draining", headers: ["Retry-After", "1"] });
  void sendReply(res, reply, { beforeEnd: () => drainBody(req) });
}

const lastWordMs = 1_000;
