/** What the status of a response to a POST says of the message. */
export type StatusVerdict =
  /** The server does not know the session: nothing was done. */
  | "session-gone"
  /** The server is away: nothing was done. */
  | "unreached"
  /** A proxy got no response of the server: whether the message arrived is unknown. */
  | "cut-off"
  /** The server failed: what it did is unknown. */
  | "failed"
  /** Nothing was done, and another try gives the same. */
  | "refused";

/** Statuses and what they say. */
interface StatusRow {
  readonly statuses: readonly number[];
  /** The row is for messages in a session (2025-11-25 and older) alone. Default: for all. */
  readonly inSession?: true;
  /** The body speaks of the session. Default: it may say anything. */
  readonly speaksOfSession?: true;
  readonly verdict: StatusVerdict;
}

/** The first row that holds counts. The status of a GET or DELETE says nothing of a session whose POST works. */
const statusRows: readonly StatusRow[] = [
  // 2025-11-25, Transports, Session Management
  { statuses: [404], inSession: true, verdict: "session-gone" },
  {
    statuses: [400, 401, 403, 409, 410, 422],
    inSession: true,
    speaksOfSession: true,
    verdict: "session-gone",
  },
  { statuses: [503], verdict: "unreached" },
  { statuses: [502, 504, 520, 521, 522, 523, 524, 530], verdict: "cut-off" },
];

/** What a response to a POST was, and to which. */
interface RefusedPost {
  readonly status: number;
  /** The body. */
  readonly text: string;
  /** The message was sent in a session. */
  readonly inSession: boolean;
}

/** Reads a status that is not one of success. */
export function verdictOf({ status, text, inSession }: RefusedPost): StatusVerdict {
  const row = statusRows.find(
    (each) =>
      each.statuses.includes(status) &&
      (!each.inSession || inSession) &&
      (!each.speaksOfSession || speaksOfSession(text)),
  );
  return row?.verdict ?? (status >= 500 ? "failed" : "refused");
}

/** True for the body of a refusal that is about the session, in the words that servers have for it. */
export function speaksOfSession(text: string): boolean {
  return sessionWords.test(text);
}

const sessionWords =
  /session|not (?:been |yet )?initiali[sz]ed|uninitiali[sz]ed|before initiali[sz]ation/i;
