import { createHash, randomUUID } from "node:crypto";
import type {
  JSONRPCMessage,
  JSONRPCRequest,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { cancelledBy, type SessionEntry, type SessionTable } from "@sluice/core/internal";
import { membersOf } from "../messages/messages.ts";
import { envelopeOf } from "../messages/envelope.ts";
import { defaultLimits } from "../messages/limits.ts";
import { type HostFacts, type HostParts, RunningBridge } from "./host-session.ts";
import { serverNotOpened, sessionsFull } from "./http-refusal.ts";
import { RequestHost, type CallEnd } from "./request-host.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { wordsOf } from "../messages/error-words.ts";

/** How long a bridge waits for the next request. */
const keepMs = 5 * 60_000;
/** How long one waits for the host to go on with a call that asked for more: as long as a question waits. */
const answerMs = defaultLimits.askMs;

/** A bridge that takes requests of one caller and client, one at a time. */
interface RequestLane {
  readonly key: string;
  readonly entry: SessionEntry<RunningBridge>;
  readonly host: RequestHost;
  isBusy: boolean;
  /** The `requestState` without which it takes no request: a call is open until the host goes on with it. */
  awaited: unknown;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Bridges for hosts of 2026-07-28. Each request has one for itself, so nothing of another request can reach it; the
 * next request of the same caller and client gets the same one.
 */
export class RequestBridges {
  readonly #table: SessionTable<RunningBridge>;
  readonly #parts: HostParts;
  readonly #lanes = new Set<RequestLane>();

  constructor(table: SessionTable<RunningBridge>, parts: HostParts) {
    this.#table = table;
    this.#parts = parts;
  }

  /** Answers a request that was checked. */
  async serve(request: Request, call: JSONRPCRequest, facts: HostFacts): Promise<Response> {
    const key = keyOfClient(facts.caller, call);
    const state = membersOf(call.params)["requestState"];
    const free = this.#free(key, state) ?? this.#free(key, undefined);
    const lane = free ?? this.#add(key, facts);
    if (!lane) return sessionsFull();
    lane.isBusy = true;
    lane.awaited = undefined;
    clearTimeout(lane.timer);
    const release = this.#table.hold(lane.entry);
    if (!free) {
      const fault = await this.#begin(lane);
      if (fault) return fault;
    }
    const { response, ended } = lane.host.serve(call, request);
    void ended.then((end) => {
      release();
      return this.#release(lane, end);
    });
    return response;
  }

  /** Passes a notification on where a bridge of the caller waits: it belongs to no request. */
  notify(notice: JSONRPCMessage, { caller }: HostFacts): void {
    // to cancel, a host closes its request; an id means nothing outside of it
    if (cancelledBy(notice) !== undefined) return;
    const lane = [...this.#lanes].find(({ isBusy, entry }) => !isBusy && entry.holder === caller);
    lane?.host.onmessage?.(notice);
  }

  #free(key: string, state: unknown): RequestLane | undefined {
    return [...this.#lanes].find(
      (lane) =>
        lane.key === key &&
        lane.awaited === state &&
        !lane.isBusy &&
        !lane.host.isClosed &&
        this.#table.find(lane.entry.id) !== undefined,
    );
  }

  #add(key: string, facts: HostFacts): RequestLane | undefined {
    const id = randomUUID();
    const { caller } = facts;
    const host = new RequestHost();
    const live = new RunningBridge({ id, revision: "modern", ...facts }, host, this.#parts);
    const entry = { id, holder: caller, owner: caller, live };
    if (!this.#table.add(entry)) return undefined;
    const lane = { key, entry, host, isBusy: true, awaited: undefined, timer: undefined };
    this.#lanes.add(lane);
    return lane;
  }

  /** Opens the server; gives the response where it cannot be opened. */
  async #begin(lane: RequestLane): Promise<Response | undefined> {
    const { host, entry } = lane;
    const drop = (): void => this.#drop(lane);
    try {
      await entry.live.begin(drop, (upstream) =>
        withParamFields(upstream, (message) => host.paramFieldsOf(message)),
      );
      return undefined;
    } catch (error) {
      drop();
      this.#parts.note(wordsOf(error));
      return serverNotOpened(error);
    }
  }

  #drop(lane: RequestLane): void {
    clearTimeout(lane.timer);
    this.#lanes.delete(lane);
    this.#table.remove(lane.entry.id);
  }

  #release(lane: RequestLane, end: CallEnd): void {
    lane.isBusy = false;
    // the server may still say something about a call that was left: no other call must hear it
    if (end === "left") return this.#close(lane);
    if (end.result?.["resultType"] === "input_required") lane.awaited = end.result["requestState"];
    const waitMs = lane.awaited === undefined ? keepMs : answerMs;
    lane.timer = setTimeout(() => this.#close(lane), waitMs);
    lane.timer.unref();
  }

  #close(lane: RequestLane): void {
    this.#drop(lane);
    this.#parts.end(lane.entry.live);
  }
}

/** A key of the caller and all that a request says of its client: what one may do, the other may. */
function keyOfClient(caller: string, call: JSONRPCRequest): string {
  const text = JSON.stringify([caller, envelopeOf(call)]);
  return createHash("sha256").update(text).digest("base64url");
}

/** The same server, to which some messages go with further header fields. */
function withParamFields(
  upstream: Upstream,
  fieldsOf: (message: JSONRPCMessage) => Readonly<Record<string, string>> | undefined,
): Upstream {
  if (upstream.kind !== "http") return upstream;
  return {
    name: upstream.name,
    kind: upstream.kind,
    learn: (message) => upstream.learn?.(message),
    open: async (flow) => {
      const transport: Transport = await upstream.open(flow);
      const send = transport.send.bind(transport);
      transport.send = (message, options: TransportSendOptions = {}) => {
        const headers = fieldsOf(message);
        return send(message, headers ? { ...options, headers } : options);
      };
      return transport;
    },
  };
}
