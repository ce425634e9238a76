import type { AcceptedUrl } from "@sluice/client/internal";
import type { TransferFinding } from "./transfer-finding.ts";

/** A JSON-RPC message as it was sent. */
export interface SentCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** One HTTP request to the endpoint and its response. */
export interface SeenExchange {
  readonly httpMethod: string;
  /** JSON-RPC method of its message. */
  readonly rpcMethod: string | undefined;
  /** Of calls that can be made again. */
  readonly sent?: SentCall | undefined;
  status?: number;
  headers: Headers;
  /** Beginning of a response that is not a message. */
  text: string;
  /** Code of the JSON-RPC error in a response of status 400 and above. */
  rpcCode?: number | undefined;
  /** What broke it: the request, or its response on the way. */
  fault?: unknown;
  /** Milliseconds from the beginning of the response to that. */
  faultMs?: number;
}

/** Where requests begin to be too large. */
export interface SeenCap {
  /** 0 where none passed. */
  readonly passedKiB: number;
  readonly refusedKiB: number;
  readonly answer: {
    readonly status: number | undefined;
    /** Nothing in front of the server said so. */
    readonly isOfServer: boolean;
    readonly fault: unknown;
  };
}

/** Validity of a certificate, and the time at the server that showed it. */
export interface SeenCertificate {
  readonly from: number;
  readonly to: number;
  readonly serverTime?: number | undefined;
}

/** The bytes of one GET. */
export interface SeenBody {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  /** False when there are more than were read. */
  readonly isWhole: boolean;
  /** Milliseconds to the first byte. */
  readonly firstByteMs: number;
  readonly fault?: unknown;
}

/** What a server said of a download. */
export interface SeenGrant {
  /** As the server wrote it. */
  readonly text: string;
  /** What the trust rules of the client make of it. */
  readonly accepted: AcceptedUrl | { readonly refusal: string };
  /** The URL at the endpoint's own origin that answers for it, where the given one cannot be used. */
  readonly answersAt?: string | undefined;
  readonly size: number | undefined;
  /** SHA-256 of the whole, in hex. */
  readonly sha256: string | undefined;
}

/** What an agreed session says of its server. */
export interface SeenServer {
  readonly name: string | undefined;
  readonly revision: string | undefined;
  readonly hasResources: boolean;
  readonly hasStreaming: boolean;
}

/** All that was seen. Each probe adds to it, and checks judge it. */
export interface Evidence {
  readonly endpoint: URL;
  readonly hasToken: boolean;
  /** A header `Origin` is sent. */
  readonly hasOrigin: boolean;
  readonly exchanges: SeenExchange[];
  /** Why there is no session. */
  sessionFault?: unknown;
  certificate?: SeenCertificate | undefined;
  /** Milliseconds that the server's clock is ahead. */
  clockAheadMs?: number | undefined;
  server?: SeenServer;
  /** What tools the server has. */
  tools?: { readonly makeLinks: boolean; readonly takeFiles: boolean };
  /** Resource that is looked at. */
  uri?: string | undefined;
  /** No event came on an open stream of events while other responses did. */
  isEventStreamHeld?: boolean;
  grant?: SeenGrant | undefined;
  /** Bytes in the response to `resources/stream` itself. */
  direct?: SeenBody;
  /** Direct responses begin late, and others do not. */
  isDirectHeld?: boolean;
  /** One that opens without credentials. */
  link?: SeenGrant;
  /** What it gives. */
  linked?: SeenBody;
  whole?: SeenBody;
  oneByte?: SeenBody;
  /** Milliseconds to the first byte of a second GET, made where the first was slow. */
  secondFirstByteMs?: number;
  bodyCap?: SeenCap;
}

/** Judges what was seen. */
export type Check = (evidence: Evidence) => TransferFinding | undefined;

/** True for a stream that the server keeps open until it has something to say. */
export function isStream({ httpMethod, rpcMethod, status, headers }: SeenExchange): boolean {
  const isEvents = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  const isOpen = httpMethod === "GET" || rpcMethod === "subscriptions/listen";
  return status === 200 && isEvents && isOpen;
}

/** From here on, a first byte is suspiciously late, in milliseconds. */
export const lateMs = 1_000;

/** Codes of an error and of what caused it, at most eight deep, the outermost first. */
export function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  let at: unknown = error;
  for (let depth = 0; depth < 8 && typeof at === "object" && at !== null; depth++) {
    const { code, name, cause, errors } = at as {
      code?: unknown;
      name?: unknown;
      cause?: unknown;
      errors?: unknown;
    };
    if (typeof code === "string") codes.push(code);
    // such a fault has a name and no code on some versions of Node
    if (name === "HTTPParserError") codes.push("HPE_INVALID");
    at = cause ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return codes;
}
