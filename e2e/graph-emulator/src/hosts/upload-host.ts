import type { IncomingMessage, ServerResponse } from "node:http";
import { toJson } from "../drive/drive-item-json.ts";
import { type DriveState, fold, type Item, toGenerated } from "../drive/drive.ts";
import { errorBody, type EmulatedFault, readAll, sendJson } from "./hosts.ts";

const fragmentUnit = 327_680;
const mostFragmentBytes = 60 * 1024 * 1024;

/** What an upload session was asked for. */
interface UploadPlan {
  readonly drive: DriveState;
  readonly from: Item;
  readonly segments: readonly string[];
  readonly conflictBehavior: string;
  readonly deferCommit: boolean;
}

/** The host of upload sessions. */
export interface UploadHost {
  /** Opens a session; gives the answer of `createUploadSession`. */
  open(plan: UploadPlan): object;
  /** Sessions that were neither finished nor cancelled. */
  readonly openSessions: () => number;
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    fault: EmulatedFault | undefined,
  ): Promise<void>;
}

interface OpenSession extends UploadPlan {
  readonly fragments: Uint8Array[];
  received: number;
  total: number | undefined;
  readonly expiresAt: number;
}

/** Creates the host. With `discardsContent` the bytes of sessions are counted and not kept, for uploads of any size. */
export function createUploadHost({
  now,
  origin,
  mintUrl,
  discardsContent,
}: {
  readonly now: () => number;
  readonly origin: () => string;
  readonly mintUrl: (item: Item) => string;
  readonly discardsContent: boolean;
}): UploadHost {
  const sessions = new Map<string, OpenSession>();
  let opened = 0;

  const statusOf = ({ received, total, expiresAt }: OpenSession): object => ({
    expirationDateTime: new Date(expiresAt).toISOString(),
    nextExpectedRanges:
      received === total ? [] : [`${received}-${total === undefined ? "" : total - 1}`],
  });
  const commit = (path: string, session: OpenSession): readonly [number, object] => {
    const { drive, from, segments, conflictBehavior, fragments, received } = session;
    const known = drive.find(from, segments);
    if (known && (conflictBehavior === "fail" || known.kind !== "file"))
      return [409, errorBody("nameAlreadyExists")];
    const content = discardsContent
      ? { size: received, read: (start: number, end: number) => new Uint8Array(end - start) }
      : toGenerated(Buffer.concat(fragments));
    const name =
      conflictBehavior === "rename" && known ? freeName(drive, from, segments) : segments;
    const item = drive.store(from, name, content);
    sessions.delete(path);
    return [known ? 200 : 201, toJson(drive, item, mintUrl)];
  };
  const put = (
    path: string,
    session: OpenSession,
    header: string,
    bytes: Buffer,
  ): readonly [number, object] => {
    const [, first, last, of] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(header) ?? [];
    const [start, end, total] = [Number(first), Number(last) + 1, Number(of)];
    const refused = [400, errorBody("invalidRequest")] as const;
    if (first === undefined || end - start !== bytes.byteLength || end > total) return refused;
    if (bytes.byteLength >= mostFragmentBytes) return [413, errorBody("maxFragmentLengthExceeded")];
    if (session.total !== undefined && session.total !== total) return refused;
    // a fragment that was kept in part is continued at any place, to the same end
    if (end !== total && end % fragmentUnit !== 0) return refused;
    if (start !== session.received)
      return [
        416,
        errorBody(
          "invalidRange",
          start < session.received ? "fragmentOverlap" : "fragmentOutOfOrder",
        ),
      ];
    session.total = total;
    if (end === total && !session.deferCommit) {
      const before = session.received;
      if (!discardsContent) session.fragments.push(bytes);
      session.received = end;
      const answer = commit(path, session);
      if (answer[0] < 400) return answer;
      // the conflict shows with the last fragment, and the session stays without it
      if (!discardsContent) session.fragments.pop();
      session.received = before;
      return answer;
    }
    if (!discardsContent) session.fragments.push(bytes);
    session.received = end;
    return [202, statusOf(session)];
  };

  return {
    open(plan) {
      const path = `/up/${++opened}.a%2bb?tempauth=v1.upload%20${opened}`;
      const session: OpenSession = {
        ...plan,
        fragments: [],
        received: 0,
        total: undefined,
        expiresAt: now() + 24 * 3_600_000,
      };
      sessions.set(path, session);
      return { uploadUrl: `${origin()}${path}`, ...statusOf(session) };
    },
    openSessions: () => sessions.size,
    async handle(request, response, fault) {
      const { method, url = "", headers } = request;
      if (headers.authorization !== undefined) return sendJson(response, 401, undefined);
      const session = sessions.get(url);
      if (session === undefined || session.expiresAt <= now())
        return sendJson(response, 404, errorBody("itemNotFound"));
      if (method === "GET") return sendJson(response, 200, statusOf(session));
      if (method === "DELETE") {
        sessions.delete(url);
        return sendJson(response, 204, undefined);
      }
      if (method === "POST" && session.deferCommit) {
        if (session.received !== session.total)
          return sendJson(response, 400, errorBody("invalidRequest", "uploadSessionIncomplete"));
        return sendJson(response, ...commit(url, session));
      }
      if (method !== "PUT") return sendJson(response, 405, undefined);
      if (fault?.resetAfter !== undefined) return breakAfter(request, fault.resetAfter);
      // a connection that breaks here throws, and nothing of the fragment is kept
      const bytes = await readAll(request);
      sendJson(response, ...put(url, session, String(headers["content-range"]), bytes));
    },
  };
}

function breakAfter(request: IncomingMessage, bytes: number): void {
  const { socket } = request;
  let received = 0;
  request.on("error", () => {});
  request.on("data", (part: Buffer) => {
    received += part.byteLength;
    if (received >= bytes) socket.resetAndDestroy();
  });
}

function freeName(drive: DriveState, from: Item, segments: readonly string[]): string[] {
  const name = segments.at(-1) ?? "";
  const folder = segments.slice(0, -1);
  const taken = drive.find(from, folder)?.children;
  for (let n = 1; ; n++) {
    const free = name.replace(/(?=\.[^.]*$|$)/, ` ${n}`);
    if (!taken?.has(fold(free))) return [...folder, free];
  }
}
