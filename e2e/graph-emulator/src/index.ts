import type { IncomingMessage, ServerResponse } from "node:http";
import { createGraphApi } from "./api/graph-api.ts";
import { createSubscriptions } from "./api/subscriptions.ts";
import { createDrive, type DriveState, type EmulatedDrive } from "./drive/drive.ts";
import { createDownloadHost, sendContent } from "./hosts/download-host.ts";
import {
  createHosts,
  errorBody,
  type EmulatedFault,
  readAll,
  type SeenRequest,
  sendJson,
} from "./hosts/hosts.ts";
import { createUploadHost } from "./hosts/upload-host.ts";

export type { EmulatedContent, EmulatedDrive, EmulatedMeta } from "./drive/drive.ts";
export type { EmulatedFault, SeenRequest } from "./hosts/hosts.ts";

/** Settings of {@link startGraphEmulator}. */
export interface GraphEmulatorOptions {
  /** Id of the first drive. Default: `b!emulated`. */
  readonly driveId?: string;
  /** What kind of drive it is, which changes tags, ids, paths and delta. Default: `business`. */
  readonly driveType?: EmulatedDrive["type"];
  /** Life of download URLs in milliseconds. Default: one hour. */
  readonly linkTtlMs?: number;
  /** What an expired download URL is answered with. Default: 401. */
  readonly expiredStatus?: 401 | 403 | 404;
  /** Most items in a page of children or changes. Default: 200. */
  readonly pageSize?: number;
  /** Count what upload sessions bring and do not keep it, so that files of any size cost no memory; they read as zeros. */
  readonly discardsUploads?: boolean;
  /** What goes wrong with this request (`PUT upload /…`), beside the faults that were queued. */
  readonly onRequest?: (line: string) => EmulatedFault | undefined;
}

/** A Graph on this machine. Disposing of it closes all connections. */
export interface GraphEmulator extends AsyncDisposable {
  /** Scheme, host and port of each of the three hosts. `graph` is the backend's `baseUrl`. */
  readonly origins: { readonly graph: string; readonly download: string; readonly upload: string };
  /** The first drive. */
  readonly drive: EmulatedDrive;
  /** Gives tokens that the emulator takes; another one each time. */
  readonly credential: {
    getToken(): Promise<{ token: string; expiresOnTimestamp: number }>;
  };
  /** Every request so far with its headers, oldest first. */
  readonly requests: readonly SeenRequest[];
  /** Makes another drive. The tokens reach only the first one unless `isReachable`. */
  addDrive(
    id: string,
    options?: { readonly type?: EmulatedDrive["type"]; readonly isReachable?: boolean },
  ): EmulatedDrive;
  /** Lets something go wrong with requests to come; faults are used up in their order. */
  fault(fault: EmulatedFault): void;
  /** Refuses all tokens that were given so far. */
  expireTokens(): void;
  /** Makes all download URLs that were given so far expired ones. */
  expireLinks(): void;
  /** Forgets changes: delta links that were given so far are answered with 410. */
  forgetChanges(): void;
  /** Lets time pass for URLs, sessions, tokens and subscriptions. */
  passTime(ms: number): void;
  /** Upload sessions that were neither finished nor cancelled. */
  openSessions(): number;
  /** Answers of the content hosts that are under way. */
  openAnswers(): number;
  /** Bytes of content that were sent. */
  sentBytes(): number;
  /** Resolves when the notifications of all changes so far were answered. */
  settleNotifications(): Promise<void>;
}

const tokenTtlMs = 3_600_000;

/**
 * Starts an emulator on three ports of 127.0.0.1: the API, the host of downloads and the host of
 * uploads. They are apart so that a bearer which goes astray is seen. It refuses what the service
 * refuses: other tokens, bearers on the content hosts, fragments that are no multiple of 320 KiB,
 * expired or rewritten URLs, wrong tags, reserved names, delta links that are too old.
 */
export async function startGraphEmulator(
  options: GraphEmulatorOptions = {},
): Promise<GraphEmulator> {
  const { driveId = "b!emulated", driveType = "business", linkTtlMs = 3_600_000 } = options;
  const hosts = createHosts(options.onRequest);
  const drives: DriveState[] = [];
  const reachable = new Map<string, DriveState>();
  const tokens = new Map<string, number>();
  let passedMs = 0;
  let issued = 0;
  let streamedBytes = 0;
  const now = (): number => Date.now() + passedMs;
  const origins = { graph: "", download: "", upload: "" };

  const subscriptions = createSubscriptions(now);
  const downloads = createDownloadHost({
    now,
    linkTtlMs,
    origin: () => origins.download,
    expiredStatus: options.expiredStatus ?? 401,
  });
  const uploads = createUploadHost({
    now,
    origin: () => origins.upload,
    mintUrl: (item) => downloads.mint(item),
    discardsContent: options.discardsUploads ?? false,
  });
  const api = createGraphApi({
    drives: reachable,
    origin: () => origins.graph,
    downloads,
    uploads,
    subscriptions,
    links: new Map(),
    pageSize: options.pageSize ?? 200,
  });

  const addDrive: GraphEmulator["addDrive"] = (
    id,
    { type = driveType, isReachable = false } = {},
  ) => {
    const drive = createDrive(id, type, { now, onChange: () => subscriptions.notify(id) });
    drives.push(drive);
    if (isReachable) reachable.set(id, drive);
    return drive;
  };
  const onGraph = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", url = "", headers } = request;
    const [, token = ""] = /^Bearer (.+)$/.exec(headers.authorization ?? "") ?? [];
    const body = await readAll(request);
    if (!((tokens.get(token) ?? 0) > now()))
      return sendJson(response, 401, errorBody("InvalidAuthenticationToken"), {
        "www-authenticate": 'Bearer realm="", authorization_uri="", error="invalid_token"',
      });
    const answer = await api({ method, url, headers, body });
    if (answer.stream === undefined)
      return sendJson(response, answer.status, answer.body, answer.headers);
    await sendContent(request, response, {
      item: answer.stream,
      content: answer.stream.content,
      count: (bytes) => (streamedBytes += bytes),
    });
  };

  origins.graph = await hosts.listen("graph", onGraph);
  origins.download = await hosts.listen("download", (...call) => downloads.handle(...call));
  origins.upload = await hosts.listen("upload", (...call) => uploads.handle(...call));

  return {
    origins,
    drive: addDrive(driveId, { isReachable: true }),
    credential: {
      async getToken() {
        const token = `emulated-token-${++issued}-${crypto.randomUUID()}`;
        const expiresOnTimestamp = now() + tokenTtlMs;
        tokens.set(token, expiresOnTimestamp);
        return { token, expiresOnTimestamp };
      },
    },
    requests: hosts.requests,
    addDrive,
    fault: (fault) => void hosts.faults.push({ fault, left: fault.times ?? 1 }),
    expireTokens: () => tokens.clear(),
    expireLinks: () => downloads.expireAll(),
    forgetChanges() {
      for (const drive of drives) drive.forgetChanges();
    },
    passTime: (ms) => void (passedMs += ms),
    openSessions: () => uploads.openSessions(),
    openAnswers: () => hosts.openAnswers(),
    sentBytes: () => downloads.sentBytes() + streamedBytes,
    settleNotifications: () => subscriptions.settle(),
    [Symbol.asyncDispose]: () => hosts.close(),
  };
}
