/**
 * What SEP-1335 (draft of 2025-08-12) asks of a server and a client, one entry for each place that
 * binds, in the order of the text.
 * @module
 */
import { entriesOf } from "./requirement-entries.ts";
import type { Requirement } from "./requirements.ts";

const { must, should, may, stated } = entriesOf("SEP-1335");

export const resumeRequirements: readonly Requirement[] = [
  // rel="stream" URL
  may("link/may-send", "server", 'a stream of events starts with a Link of rel="stream"'),
  must("link/must-same-origin", "server", "the URL has the origin of the server's own"),
  should("link/should-resume", "client", "after a disconnection the client resumes the stream"),
  must("link/must-get", "client", "it does so with a GET to that URL instead of the endpoint"),
  should("link/should-send-last-event-id", "client", "with Last-Event-ID where it has one"),
  must("link/must-respect-last-event-id", "server", "which the server respects"),
  stated("link/same-origin-only", "client", "a URL of another origin is not used"),

  // Allow server to disconnect at will
  may("disconnect/may-close", "server", "the connection may end before the response"),
  should("disconnect/should-retry", "server", "with a retry field in the stream before that"),
  should("disconnect/should-respect-retry", "client", "which the client respects"),

  // Multi-turn requests
  stated("turns/requests-on-stream", "server", "requests to the client are sent on the stream"),
  must("turns/must-disconnect", "server", "a server that wants to wait for input disconnects"),
  must("turns/must-204", "server", "and answers the next GET with 204"),
  must("client/must-buffer", "client", "responses are kept instead of being sent"),
  must("client/must-post", "client", "and POSTed to the URL as a JSON array after the 204"),
  must("turns/must-new-stream", "server", "which is answered by a new stream with a new Link"),
  stated("turns/repeats", "both", "until the client has the response to its request"),

  // Backward compatibility
  stated("compatibility/new-client-old-server", "client", "no Link: resumes and answers at /mcp"),
  stated("compatibility/old-client-new-server", "server", "no use of the Link: is served at /mcp"),
];
