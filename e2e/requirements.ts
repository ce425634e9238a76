/**
 * Every MUST, SHOULD and MAY of SEP-2532 (draft of 2026-04-07) as data, one entry for each place
 * where the text uses the key word, in the order of the text, and after them what
 * `resource-requirements.ts`, `binary-requirements.ts` and `upload-requirements.ts` have. Tests cite an id in square brackets in their title;
 * `requirement-gate.ts` holds the two sides together.
 * @module
 */
import { deviation, entriesOf } from "./requirement-entries.ts";
import { binaryRequirements } from "./binary-requirements.ts";
import { resourceRequirements } from "./resource-requirements.ts";
import { resumeRequirements } from "./resume-requirements.ts";
import { uploadRequirements } from "./upload-requirements.ts";

/** Key words of BCP 14, plus `STATED` for tables and sentences that bind without one. */
export type Level = "MUST" | "MUST NOT" | "SHOULD" | "SHOULD NOT" | "MAY" | "STATED";

/** Why an entry is not met to the letter. `docs/protocol/departures.md` has one row for each. */
export interface Exemption {
  /**
   * - `deviation`: we do something else on purpose, and tests show what
   * - `absent`: the case it speaks of cannot arise here
   * - `later`: its subject is not built yet
   */
  readonly kind: "deviation" | "absent" | "later";
  readonly reason: string;
}

/** One requirement. */
export interface Requirement {
  readonly id: string;
  /** Heading under which the text has it. */
  readonly section: string;
  readonly level: Level;
  /** What it asks, in our words. */
  readonly text: string;
  readonly side: "server" | "client" | "both";
  readonly exemption?: Exemption;
}

const { must, mustNot, should, shouldNot, may, stated } = entriesOf("SEP-2532");

const byUriHeader =
  "MCP-Resource-Uri decides, then Content-Type: a JSON resource could otherwise pose as a protocol answer and send the client elsewhere";
const principal =
  "scoped to the principal (issuer, subject, client id), which survives without sessions; in the legacy era to its session too, whose id a user may leave out";
const ownOrigin =
  "credentials go to the origin of the MCP endpoint only; URLs elsewhere must carry their own permission";
const loopback = "plain http is taken when endpoint and URL are both on the loopback interface";
const readLimit =
  "above maxReadBytes (2 MiB unless configured) the answer is the error too_large: base64 of it would fill the memory of both ends";

const streaming: readonly Requirement[] = [
  // 1. Capability declaration
  must(
    "1.capability/must-declare-stream",
    "server",
    "a streaming server declares resources.stream",
  ),
  may(
    "1.capability/may-combine",
    "server",
    "stream stands beside subscribe and listChanged in any combination",
  ),
  must(
    "1.capability/must-declare-client",
    "client",
    "a client that takes streams declares resourceStreaming",
  ),
  should(
    "1.capability/should-respect-max-size",
    "server",
    "an error for a resource above the client's maxStreamSize",
  ),
  mustNot(
    "1.capability/must-not-answer-undeclared",
    "server",
    "no stream for a client that did not declare resourceStreaming",
    {
      kind: "deviation",
      reason:
        "a legacy server without sessions cannot know what an initialize declared: it answers with a download URL, never with bytes",
    },
  ),

  // 2. Resource metadata
  may("2.metadata/may-mark-resource", "server", "listed resources can carry streamable"),
  should(
    "2.metadata/should-mark-preferred",
    "server",
    "streamable: true where streaming is the better delivery",
  ),

  // 3. resources/stream, direct binary
  may(
    "3.direct/may-answer-binary",
    "server",
    "the answer can be the bytes themselves under their own media type",
  ),
  must("3.direct/must-content-type", "server", "Content-Type is the media type of the resource"),
  should("3.direct/should-content-length", "server", "Content-Length is the size in bytes"),
  should(
    "3.direct/should-content-disposition",
    "server",
    "Content-Disposition: attachment suggests a file name",
  ),
  must("3.direct/must-resource-uri", "server", "MCP-Resource-Uri names the resource"),
  must(
    "3.client/must-check-type",
    "client",
    "look at Content-Type before touching the body",
    deviation(byUriHeader),
  ),
  must(
    "3.client/must-parse-json-error",
    "client",
    "application/json is a JSON-RPC answer",
    deviation(byUriHeader),
  ),
  must(
    "3.client/must-consume-binary",
    "client",
    "any other type is raw bytes",
    deviation(byUriHeader),
  ),
  must(
    "3.client/must-enforce-max-size",
    "client",
    "abort above maxStreamSize, by header and by count",
  ),
  should(
    "3.client/should-stream-incrementally",
    "client",
    "hand bytes on as they arrive, never the whole body in memory",
  ),
  mustNot(
    "3.client/must-not-inject-context",
    "client",
    "the bytes stay out of the model's context",
  ),

  // 3. redirect
  may("3.redirect/may-redirect", "server", "the answer can be a redirect to storage"),
  must("3.redirect/must-resource-uri", "server", "MCP-Resource-Uri is on the redirect too"),
  should("3.redirect/should-self-authenticate", "server", "the target carries its own permission"),
  must(
    "3.redirect/must-document-auth",
    "server",
    "a target that wants other credentials is documented",
    {
      kind: "absent",
      reason: "we redirect to presigned URLs only, so no target wants credentials",
    },
  ),
  should("3.redirect/should-limit-time", "server", "the target is valid for minutes"),
  must(
    "3.redirect/must-follow",
    "client",
    "302 and 307 are followed without the caller's help",
    deviation(
      "each hop is a new GET without a body: repeating the POST would hand the JSON-RPC request to the storage service",
    ),
  ),

  // 3. download URL
  may("3.download-url/may-answer-url", "server", "the answer can be JSON with a downloadUrl"),
  must("3.download-url/must-https", "server", "the downloadUrl is https", deviation(loopback)),
  must(
    "3.download-url/must-scope-to-session",
    "server",
    "the URL works for the authenticated session alone",
    deviation(principal),
  ),
  should("3.download-url/should-limit-use", "server", "the URL is single-use or limited in time"),
  must(
    "3.download-url/must-send-credentials",
    "client",
    "the session's credentials go with the GET",
    deviation(ownOrigin),
  ),
  stated(
    "3.download-url/same-headers",
    "server",
    "the bytes come with the headers of the direct answer",
    deviation(
      "types that a browser may run are application/octet-stream there, since such a URL can be opened in one; Link is for direct answers",
    ),
  ),
  should(
    "3.summary/should-prefer-direct-or-redirect",
    "server",
    "direct or redirect before downloadUrl",
  ),

  // 3. errors
  stated(
    "3.errors/codes",
    "server",
    "-32002 not found, -32003 not streamable, -32004 too large, -32603 internal",
    deviation(
      "these numbers in the legacy era; the modern era forbids or reserves them, so others stand there and data.reason names the cause in both",
    ),
  ),
  stated("3.errors/statuses", "server", "200, 206, 401, 404, 410 and 500 at the download URL"),
  should("3.errors/should-retry-download", "client", "failed downloads are tried again"),
  may("3.errors/may-reissue-on-410", "client", "410 asks resources/stream for a fresh URL"),

  // 4. transports
  must(
    "4.http/must-json-or-sse",
    "server",
    "every other method answers JSON or SSE, as the transport says (quoted there)",
  ),
  may("4.http/may-third-type", "server", "resources/stream alone has a third kind of answer"),
  may("4.http/may-cross-origin", "server", "redirect targets can lie on another origin"),
  must("4.websocket/must-download-url", "server", "over WebSocket always a downloadUrl"),
  shouldNot("4.stdio/should-not-declare", "server", "no stream capability over stdio"),

  // 5. existing features
  must(
    "5.read/must-keep-read",
    "server",
    "resources/read still answers for every resource",
    deviation(readLimit),
  ),
  may("5.read/may-use-either", "client", "read and stream are both open for a streamable resource"),
  may("5.templates/may-mark-template", "server", "templates can carry streamable"),

  // 6. error handling
  should("6.errors/should-retry-transfer", "client", "an interrupted transfer is tried again"),

  // Backward compatibility
  must(
    "compatibility/must-keep-read",
    "server",
    "resources/read is unchanged",
    deviation(readLimit),
  ),

  // Security implications
  must(
    "security/must-enforce-max-size",
    "client",
    "maxStreamSize is checked before and while bytes flow",
  ),
  must(
    "security/must-unguessable-urls",
    "server",
    "URLs cannot be guessed, are scoped to the session and end",
    deviation(principal),
  ),
  should(
    "security/should-single-use",
    "server",
    "a URL works once",
    deviation(
      "bound URLs serve their principal until they expire, so that Range and HEAD work; self-authenticating ones serve one download; either can be made single-use",
    ),
  ),
  should(
    "security/should-check-origin",
    "client",
    "the downloadUrl has the server's origin or a trusted one",
  ),
  must("security/must-same-tls", "client", "the download verifies TLS as the MCP connection does"),
  should("security/should-verify-length", "client", "bytes received equal Content-Length"),
  may("security/may-send-integrity", "server", "ETag and digests can come with the bytes"),

  // Privacy considerations
  must(
    "privacy/must-scope-and-limit-url",
    "server",
    "the URL is scoped to the session and limited in time",
    deviation(principal),
  ),
  mustNot(
    "privacy/must-not-leak-in-url",
    "server",
    "the URL tells nothing of content, user or server",
  ),

  // Transport security
  must("transport-security/must-https", "server", "the downloadUrl is https", deviation(loopback)),
  must(
    "transport-security/must-send-credentials",
    "client",
    "the session's credentials go with the GET",
    deviation(ownOrigin),
  ),
  should("transport-security/should-no-store", "server", "caches keep no copy"),

  // Open questions, as far as they already say what they want
  should("questions/should-support-ranges", "server", "range requests are answered"),
  should("questions/should-accept-anything", "client", "Accept has */* beside application/json"),

  // Planned implementation
  stated("plan/streamable-field", "server", "a resource has a streamable field"),
  stated(
    "plan/stream-resource",
    "client",
    "a method for a URI gives type and size, and a helper the ReadableStream",
  ),
  stated(
    "plan/stream-providers",
    "server",
    "providers of streams are registered, and may give URLs",
  ),
  stated("plan/http-integration", "both", "streams work over the Streamable HTTP transport"),
  stated("plan/graph-urls", "server", "files of OneDrive and SharePoint leave by URLs of Graph"),
  stated("plan/progress", "client", "progress is told by Content-Length and the bytes received"),
  stated("plan/read-fallback", "both", "a small text file can be read with resources/read"),
  stated("plan/cli-to-disk", "client", "a command-line client streams a large resource to disk"),
  stated("plan/cli-progress", "client", "it shows a progress bar by Content-Length"),
  stated("plan/cli-max-size", "client", "it enforces a maxStreamSize"),
];

/** Every requirement. */
export const requirements: readonly Requirement[] = [
  ...streaming,
  ...resourceRequirements,
  ...uploadRequirements,
  ...binaryRequirements,
  ...resumeRequirements,
];
