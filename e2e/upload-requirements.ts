/**
 * What SEP-1306 (binary mode elicitation, as of 2025-08-05) asks of a server and a client, one entry for each place
 * that binds, in the order of the text.
 * @module
 */
import { deviation, entriesOf } from "./requirement-entries.ts";
import type { Requirement } from "./requirements.ts";

const { must, should, may, stated } = entriesOf("SEP-1306");

const steps =
  "where the endpoint says that it takes them, the client sends one file as the body itself, and large ones in steps: a form cannot be resumed";

export const uploadRequirements: readonly Requirement[] = [
  // 1. Capability declaration
  must("1.capability/must-declare", "client", "a client that answers declares elicitation.binary"),
  stated("1.capability/limits", "client", "maxFileSize and supportedMimeTypes say what it takes"),

  // 2. Binary mode elicitation requests
  must("2.request/must-type-file", "server", "a field for a file has the type file"),
  stated(
    "2.request/file-properties",
    "server",
    "title, description, accept, maxSize, multiple and required stand in the field, beside other fields",
  ),
  stated(
    "2.request/endpoints",
    "server",
    "each file field has an endpoint of its own with url, method and uploadId",
  ),
  should(
    "2.request/should-guid",
    "server",
    "an uploadId is a GUID",
    deviation("192 random bits in base64url, where a GUID has 122"),
  ),

  // 3. Response format
  stated(
    "3.response/accept",
    "client",
    "each file is named with name, size, mimeType and uploadId",
  ),
  stated("3.response/multiple", "client", "a field with multiple has an array of files"),
  stated("3.response/decline-cancel", "both", "decline and cancel are as in other modes"),

  // 5. File upload protocol
  must("5.upload/must-2xx", "server", "a stored upload is answered with 2xx"),
  may("5.upload/may-tell-more", "server", "the answer can say more, and clients need not read it"),
  must("5.upload/must-exact-url", "client", "files go to the exact url of the request"),
  must(
    "5.upload/must-authorize",
    "client",
    "the client's access token goes with the files",
    deviation("to the origin of the MCP endpoint only, and not where the URL itself is enough"),
  ),
  must(
    "5.upload/must-multipart",
    "client",
    "files travel as multipart/form-data",
    deviation(steps),
  ),
  must("5.upload/must-field-name", "client", "the form field is called file"),
  must("5.upload/must-file-name", "client", "Content-Disposition has the original file name"),
  must("5.upload/must-content-type", "client", "each part has the type of its file"),
  should(
    "5.upload/should-one-field-each",
    "client",
    "each of several files is a form field of its own",
  ),

  // Upload progress reporting
  may("5.progress/may-request", "server", "a progressToken asks for notifications"),
  may("5.progress/may-notify", "client", "notifications/progress tell bytes and total"),
  may("5.progress/may-use", "server", "the server uses what it is told"),

  // 6. Size and type validation
  must(
    "6.validation/must-reject-size",
    "client",
    "a file above maxSize or maxFileSize is rejected",
  ),
  should(
    "6.validation/should-filter-type",
    "client",
    "a file that does not match accept is kept out",
  ),
  must("6.validation/must-take-one", "client", "without multiple one file is accepted"),

  // Backwards compatibility
  should(
    "compatibility/should-read-empty-as-form",
    "server",
    "elicitation: {} means form mode only",
  ),
  should(
    "compatibility/should-fall-back",
    "server",
    "a client without binary mode gets another way, or a clear error",
  ),

  // Security considerations
  should("security/should-scan", "server", "files are scanned for malware"),
  should("security/should-limit-rate", "server", "uploads are limited in rate, per caller"),
  should("security/should-log", "server", "requests for files and their answers are on record"),
  must("security/must-validate-token", "server", "upload endpoints validate access tokens"),
  should("security/should-name-upload", "server", "upload URLs are of one upload"),
  should(
    "security/should-store-safely",
    "server",
    "what came is not readable before it was confirmed",
  ),

  // Privacy implications
  must(
    "privacy/must-inform",
    "client",
    "the user reads which server asks, why, and where the files go, before anything is opened",
  ),
  should("privacy/should-guard-logs", "server", "records have no file names"),
  must(
    "privacy/must-use-tls",
    "both",
    "uploads use TLS",
    deviation("plain http is taken when endpoint and upload are both on the loopback interface"),
  ),
];
