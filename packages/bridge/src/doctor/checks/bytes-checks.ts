import { createHash } from "node:crypto";
import { parseReprDigest } from "@sluice/core/internal";
import { isStream, lateMs, type Check, type SeenBody, type SeenGrant } from "../evidence.ts";
import type { TransferFinding } from "../transfer-finding.ts";

/** The server's download URLs lead where this client may go. */
export const checkPublicUrl: Check = ({ endpoint, grant }) => {
  if (!grant || !("refusal" in grant.accepted)) return undefined;
  const grantUrl = URL.canParse(grant.text) ? new URL(grant.text) : undefined;
  const isSame = grantUrl?.hostname === endpoint.hostname;
  const isInner = grantUrl && loopback.test(grantUrl.hostname) && !loopback.test(endpoint.hostname);
  const is = grantUrl?.origin ?? "something not a URL";
  if (!grantUrl || isSame || isInner || grant.answersAt !== undefined)
    return {
      cause: "public-url",
      message: `The server gives download URLs at ${is}, but clients reach it at ${endpoint.origin}: have its operator set its public URL (sluice serve --public-url) to ${endpoint.origin}${endpoint.pathname}.`,
    };
  return {
    cause: "trust",
    message: `The bytes are at ${is}, which is not the server's origin: pass --trust ${is} if you trust it with downloads.`,
  };
};

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** The download URL answers with bytes. */
export const checkDownload: Check = ({ endpoint, grant, whole, hasToken }) => {
  if (!grant || !whole) return undefined;
  const { status } = whole;
  if (status === 404 || (status === 200 && isUnexpectedPage(whole)))
    return {
      cause: "public-url",
      message:
        grant.answersAt === undefined
          ? `Nothing answers at the download URLs of the server (404 below ${pathOf(grant.text)}): have the proxy pass on that path, or the operator set the public URL to ${endpoint.href}.`
          : `The server leaves out a part of its path in download URLs: have its operator set its public URL (sluice serve --public-url) to ${endpoint.origin}${endpoint.pathname}.`,
    };
  if (status === 401 || status === 403)
    return {
      cause: hasToken ? "authorization" : "access",
      message: hasToken
        ? `The server takes the token at its endpoint and not at its download URLs (${status}): have the proxy pass on Authorization below ${pathOf(grant.text)}.`
        : `The download URL is refused (${status}): have the proxy in front leave ${pathOf(grant.text)} open.`,
    };
  // the client follows a redirect of bytes
  if (status >= 400)
    return {
      cause: "server",
      message: `The download URL answers HTTP ${status}: see the log of the server, or of the proxy in front.`,
    };
  if (status === 0)
    return {
      cause: "cut",
      message:
        "The connection of the download ends without an answer: have the operator look for time limits of the proxy in front.",
    };
  return undefined;
};

/** The first two parts: what follows may be a token. */
function pathOf(text: string): string {
  const { pathname } = new URL(text, "http://localhost");
  return `${pathname.split("/").slice(0, 3).join("/")}/`;
}

function isUnexpectedPage({ headers, bytes }: SeenBody): boolean {
  const isPage = /^text\/html\b/i.test(headers.get("content-type") ?? "");
  return isPage && !headers.has("etag") && bytes.length > 0 && !headers.has("content-disposition");
}

/** A download is not cut. */
export const checkDownloadCut: Check = ({ whole }) =>
  whole?.fault === undefined ? undefined : cutOff("The download", whole);

function cutOff(what: string, { bytes }: SeenBody): TransferFinding {
  return {
    cause: "cut",
    message: `${what} is cut off after ${bytes.length} bytes: have the operator look for time limits and size limits of the proxy in front.`,
  };
}

/** Bytes in the response to the call itself arrive whole, as they are, and at once. */
export const checkDirect: Check = ({ direct, isDirectHeld }) => {
  if (!direct) return undefined;
  if (direct.fault !== undefined) return cutOff("A direct answer", direct);
  const { headers } = direct;
  const length = headers.get("content-length");
  const promised = {
    size: length === null ? undefined : Number(length),
    sha256: parseReprDigest(headers.get("repr-digest") ?? ""),
  };
  return changedBytes(promised, direct) ?? (isDirectHeld ? heldBack : undefined);
};

/** A link opens without credentials, wherever it is opened. */
export const checkLink: Check = (evidence) => {
  const { link, linked } = evidence;
  if (!link) return undefined;
  const linkEvidence = { ...evidence, grant: link, hasToken: false };
  return (
    checkPublicUrl(linkEvidence) ??
    (linked &&
      (checkDownload({ ...linkEvidence, whole: linked }) ??
        checkDownloadCut({ ...linkEvidence, whole: linked })))
  );
};

/** The bytes arrive as they are. */
export const checkChanged: Check = ({ grant, whole }) =>
  grant && whole?.status === 200 ? changedBytes(grant, whole) : undefined;

function changedBytes(
  grant: Pick<SeenGrant, "size" | "sha256">,
  whole: SeenBody,
): TransferFinding | undefined {
  const coding = whole.headers.get("content-encoding");
  if (coding !== null && coding.toLowerCase() !== "identity")
    return {
      cause: "changed",
      message: `The bytes arrive packed (Content-Encoding: ${coding.slice(0, 20)}) though the client declined it: turn compression off in the proxy for the download URLs.`,
    };
  if (!whole.isWhole) return undefined;
  const isSized = grant.size === undefined || grant.size === whole.bytes.length;
  const digest = createHash("sha256").update(whole.bytes).digest("hex");
  if (isSized && (grant.sha256 === undefined || grant.sha256 === digest)) return undefined;
  return {
    cause: "changed",
    message: isSized
      ? "The bytes are not those of the server's digest: have the operator turn off whatever rewrites answers in front."
      : `The download has ${whole.bytes.length} bytes and the server promised ${grant.size}: have the operator turn off whatever rewrites answers in front.`,
  };
}

/** A part can be asked for. */
export const checkRange: Check = ({ whole, oneByte }) => {
  // the server itself says so where it cannot
  if (oneByte?.status !== 200 || whole?.headers.get("accept-ranges") === "none") return undefined;
  return {
    cause: "range",
    message:
      "A Range comes back as the whole file (200, not 206), so broken downloads begin again: have the proxy pass on Range and If-Range.",
  };
};

const heldBack: TransferFinding = {
  cause: "buffering",
  message:
    "Downloads begin only when all of their bytes are there: turn buffering of answers off in the proxy (nginx: proxy_buffering off).",
};

/** Bytes and events arrive as they are made. */
export const checkBuffering: Check = (evidence) => {
  const { isEventStreamHeld, whole, oneByte, secondFirstByteMs = 0 } = evidence;
  const soonestMs = Math.min(whole?.firstByteMs ?? 0, secondFirstByteMs);
  const isHeld = soonestMs > lateMs && soonestMs > 5 * (oneByte?.firstByteMs ?? Infinity);
  if (!isEventStreamHeld && !isHeld) return undefined;
  return {
    cause: "buffering",
    message: isHeld
      ? heldBack.message
      : "Streams of events do not arrive while they are open: turn buffering of answers off in the proxy (nginx: proxy_buffering off).",
  };
};

/** Requests may be large. */
export const checkBodyCap: Check = ({ bodyCap }) => {
  if (!bodyCap) return undefined;
  const { passedKiB, refusedKiB, answer } = bodyCap;
  const { status = "no answer" } = answer;
  const pass = passedKiB === 0 ? "" : `, and those of ${passedKiB} KiB pass`;
  return {
    cause: "body-cap",
    message: `Requests of ${refusedKiB} KiB are refused (${status})${pass}: raise the limit of request bodies in the proxy (nginx: client_max_body_size) or the server.`,
  };
};

/** Connections last. */
export const checkCut: Check = ({ exchanges }) => {
  const cut = exchanges.find((exchange) => isStream(exchange) && exchange.fault !== undefined);
  if (!cut) return undefined;
  return {
    cause: "cut",
    message: `An open stream is cut after ${Math.max(1, Math.round((cut.faultMs ?? 0) / 1_000))} s: raise the time limits of the proxy (nginx: proxy_read_timeout and send_timeout) to an hour.`,
  };
};
