import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { answerOf } from "./captured-answer.ts";

/** The connections of a server, and what each of them is owed. */
type OpenAnswers = ReadonlyMap<Socket, ReadonlySet<ServerResponse>>;

const servers = new WeakMap<Server, OpenAnswers>();

/** Keeps account of the answers of a server. */
export function noteAnswers(server: Server): void {
  if (servers.has(server)) return;
  const connections = new Map<Socket, Set<ServerResponse>>();
  servers.set(server, connections);

  function note(socket: Socket): Set<ServerResponse> {
    const known = connections.get(socket);
    if (known) return known;
    const answers = new Set<ServerResponse>();
    connections.set(socket, answers);
    // an answer that is queued behind another one is not told that its connection is gone
    socket.once("close", () => connections.delete(socket));
    return answers;
  }

  server.on("connection", note);
  // over TLS it is another socket than the one that connected
  server.on("secureConnection", note);
  server.prependListener("request", ({ socket }, answer) => {
    const answers = note(socket);
    answers.add(answer);
    answer.once("close", () => answers.delete(answer));
  });
}

/** What a server owes; `undefined` for one of which no account is kept. */
export function openAnswersOf(server: Server): OpenAnswers | undefined {
  return servers.get(server);
}

const endings = new WeakMap<ServerResponse, () => void>();
const leaving = new WeakSet<ServerResponse>();

/** Has an answer that would never end by itself ended by `end` when its server drains. */
export function endOnDrain(sent: ServerResponse, end: () => void): void {
  const answer = answerOf(sent);
  // what it has to say at once is an id to come back with
  if (leaving.has(answer)) setImmediate(end);
  else endings.set(answer, end);
}

/** Tells an answer, also one that has not begun, that its server drains. */
export function tellDraining(answer: ServerResponse): void {
  leaving.add(answer);
  endings.get(answer)?.();
}
