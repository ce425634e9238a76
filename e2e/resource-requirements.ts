/**
 * What the article on resources (`ARTICLE/…`, by its sections) and the MCP specification (`MCP/…`,
 * revisions 2025-11-25 and 2026-07-28) ask of a server that offers resources, beside SEP-2532. Of the
 * specification: the pages on resources, pagination, caching, completion and subscriptions, as far as they
 * concern resources and servers.
 * @module
 */
import type { Exemption, Level, Requirement } from "./requirements.ts";

const row =
  (source: string, level: Level) =>
  (path: string, text: string, exemption?: Exemption): Requirement => ({
    id: `${source}/${path}`,
    section: path.slice(0, path.lastIndexOf("/")),
    level,
    text,
    side: "server",
    ...(exemption && { exemption }),
  });
const must = row("MCP", "MUST");
const mustNot = row("MCP", "MUST NOT");
const should = row("MCP", "SHOULD");
const may = row("MCP", "MAY");
const article = row("ARTICLE", "STATED");
const articleMust = row("ARTICLE", "MUST");
const articleShould = row("ARTICLE", "SHOULD");

const numbers: Exemption = {
  kind: "deviation",
  reason:
    "the SDK sends -32602 where a handler says -32002, in both eras, and -32003 means something else in SEP-2532; data.reason names the cause",
};
export const resourceRequirements: readonly Requirement[] = [
  // MCP, resources
  must("resources/must-declare", "a server with resources declares the capability"),
  may("resources/may-paginate", "resources/list answers in pages"),
  may("resources/may-annotate", "audience, priority and lastModified stand in annotations"),
  should(
    "list-changed/should-notify",
    "a server that declares listChanged tells that the list changed",
  ),
  must(
    "subscriptions/must-notify-subscribed",
    "resources/updated goes to the subscribers of the resource, and to no other client",
  ),
  row("MCP", "STATED")("templates/rfc6570", "templates are RFC 6570 URI templates"),
  must("schemes/must-rfc3986", "custom URI schemes are in accordance with RFC 3986"),
  should("schemes/should-https", "https: only where the client can fetch the resource by itself", {
    kind: "absent",
    reason: "the author of the server chooses the base of the URIs",
  }),
  may("schemes/may-xdg", "file: resources can have XDG types such as inode/directory", {
    kind: "absent",
    reason: "folders are no resources here: objects only are listed and read",
  }),
  should(
    "errors/should-codes",
    "-32002 for what is not there, -32603 for internal errors",
    numbers,
  ),
  must("security/must-validate-uris", "resource URIs are validated"),
  should("security/should-control-access", "access is controlled for sensitive resources"),
  must("security/must-encode-binary", "binary data is properly encoded"),
  should("security/should-check-permissions", "permissions are checked before operations"),

  // MCP, pagination
  should("pagination/should-stable-cursors", "cursors are stable"),
  should("pagination/should-refuse-cursor", "an invalid cursor is -32602"),

  // MCP, caching (2026-07-28)
  must("caching/must-say", "list, templates and read say ttlMs and cacheScope"),
  must("caching/must-not-negative", "ttlMs is 0 or more"),

  // MCP, completion
  must("completion/must-declare", "a server with completions declares them"),
  must("completion/must-validate", "completion input is validated"),
  must("completion/must-limit-rate", "completions are limited in rate"),
  must("completion/must-not-disclose", "completion tells nothing that the caller may not know"),
  should("completion/should-sort", "suggestions are sorted by relevance", {
    kind: "deviation",
    reason:
      "they come in the order of the storage: sorting would need all of a folder before the first suggestion",
  }),

  // MCP, subscriptions (2026-07-28)
  must("listen/must-acknowledge", "the first message tells the filter that is honoured"),
  mustNot("listen/must-filter", "nothing goes out that the client did not ask for"),
  must("listen/must-stamp", "each notification carries the id of its subscription"),
  must("listen/must-close", "the server ends the stream when it shuts down"),

  // Article
  article("3/capabilities", "subscribe and listChanged are declared where they work"),
  article("4.1/list", "resources/list gives URIs and metadata"),
  article("4.1/read", "resources/read gives the content"),
  article("4.2/resource-object", "uri, name, title, description, mimeType, size, annotations"),
  article("4.2/contents", "content is either text or blob"),
  article("4.2/annotations", "audience, priority from 0 to 1, lastModified as ISO 8601"),
  articleShould(
    "4.3/codes",
    "-32602 for malformed requests, -32002 not found, -32003 permission denied, -32603 internal",
    numbers,
  ),
  article("5.2/subscribe", "a subscription is confirmed, and changes are notified"),
  article("5.2/unsubscribe", "after unsubscribing nothing more comes"),
  articleShould("5.2/list-changed", "list_changed when resources come or go"),
  article("5.3/templates", "templates are listed, and their variables can be completed"),
  article("7/resource-link", "a tool returns a link to a resource instead of the data"),
  article("8/roles", "the role and the approved trials of the caller decide what it gets"),
  article("8/audit", "each access is on record: principal, resource, action, outcome"),
  article("9.2/rate-limit", "reads are limited per caller"),
  article(
    "9.2/server-cache",
    "small hot content is cached at the server, after access was checked",
  ),
  article("10.1/client-cache", "metadata and small content are cached"),
  articleMust("10.2/consent", "the scale of what will happen is shown before consent"),
  article("11.2/no-token-stuffing", "large data does not travel inside a result"),
  articleMust("12.1/must-paginate", "large lists are paginated by cursor"),
  article("12.1/ranged-reads", "a small slice of a large file can be read"),
  articleMust("12.2/must-validate-uris", "URIs are validated against path traversal"),
  articleShould("12.2/should-control-access", "access is controlled"),
  articleMust("12.2/must-encode-binary", "binary data is properly base64"),
  articleShould(
    "12.2/should-check-permissions",
    "permissions are checked at list, read and subscribe",
  ),
  articleMust("14/must-rfc3986", "custom schemes comply with RFC 3986"),
];
