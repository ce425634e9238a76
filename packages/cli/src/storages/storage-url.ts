import { fileURLToPath } from "node:url";
import { definedMembers } from "@sluice/core/internal";

/** What a storage URL names. */
export type StorageUrl =
  | { readonly kind: "file"; readonly root: string }
  | {
      readonly kind: "s3";
      readonly bucket: string;
      readonly prefix?: string;
      readonly region?: string;
      readonly endpoint?: string;
    }
  | { readonly kind: "azblob"; readonly container: string; readonly prefix?: string }
  | { readonly kind: "graph"; readonly driveId: string; readonly path?: string };

/** Packages for storages other than folders. */
export const plugins = {
  s3: "@sluice/storage-s3",
  azblob: "@sluice/storage-azure-blob",
  graph: "@sluice/storage-graph",
} as const;

/** Where credentials come from instead. */
export const credentialSources: Readonly<Record<string, string>> = {
  file: "a folder needs none",
  s3: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile or role",
  azblob:
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN",
  graph: "set GRAPH_ACCESS_TOKEN",
};

const forms =
  "a folder, file:./folder, s3://bucket/prefix?region=…&endpoint=…, azblob://container/prefix or graph://driveId/path";

/**
 * Reads the URL of a storage, or the path of a folder. Throws a `TypeError` that says what is wrong and
 * never repeats what could be a secret.
 */
export function parseStorageUrl(text: string): StorageUrl {
  if (text === "") throw refusal(`is empty; it is ${forms}`);
  // one letter is a drive of Windows
  const [, scheme] = /^([a-z][a-z0-9+.-]+):/i.exec(text) ?? [];
  if (scheme === undefined) return { kind: "file", root: text };
  const kind = scheme.toLowerCase();
  if (!(kind in credentialSources))
    throw refusal(
      `has the unknown scheme "${kind}:"; it is ${forms}. For a folder whose name has a colon write ./ before it`,
    );
  if (kind === "file") return { kind, root: toPath(text) };

  const { host, path, parameters } = takeApart(text, kind);
  const below = path === "" ? undefined : path;
  if (kind === "s3") {
    const { region, endpoint } = readParameters(parameters, kind, ["region", "endpoint"]);
    const origin = endpoint === undefined ? undefined : toOrigin(endpoint);
    return { kind, bucket: host, ...definedMembers({ prefix: below, region, endpoint: origin }) };
  }
  readParameters(parameters, kind, []);
  return kind === "azblob"
    ? { kind, container: host, ...definedMembers({ prefix: below }) }
    : { kind: "graph", driveId: host, ...definedMembers({ path: below }) };
}

interface Parts {
  readonly host: string;
  /** Decoded, without slashes at its ends. */
  readonly path: string;
  readonly parameters: URLSearchParams;
}

function takeApart(text: string, kind: string): Parts {
  if (!URL.canParse(text)) throw refusal(`is not a URL; it is ${forms}`);
  const { username, password, hostname, port, pathname, searchParams, hash } = new URL(text);
  if (username !== "" || password !== "") throw hasCredentials(kind);
  if (hostname === "") throw refusal(`names nothing after "${kind}://"; it is ${forms}`);
  if (port !== "") throw refusal("has a port; the address of another S3 store goes into endpoint=");
  if (hash !== "") throw refusal("has a fragment; write # as %23");
  return {
    host: decode(hostname),
    path: withoutSlashes(decode(pathname)),
    parameters: searchParams,
  };
}

/** The parameters by name. Each may be there once, and no other. */
function readParameters(
  parameters: URLSearchParams,
  kind: string,
  knownNames: readonly string[],
): Readonly<Record<string, string | undefined>> {
  const values: Record<string, string> = {};
  for (const [name, value] of parameters) {
    if (/key|secret|token|password|credential|connection|^sig$|^x-amz-/i.test(name))
      throw hasCredentials(kind);
    if (!knownNames.includes(name))
      throw refusal(
        `has the unknown parameter "${name}"; ${knownNames.length === 0 ? `${kind}: takes none` : `${kind}: takes ${knownNames.join(" and ")}`}`,
      );
    if (name in values || value === "") throw refusal(`needs one value for "${name}"`);
    values[name] = value;
  }
  return values;
}

function toPath(text: string): string {
  const rest = text.slice("file:".length);
  if (/[?#]/.test(rest)) throw refusal("has a query or fragment; write ? as %3F and # as %23");
  if (rest === "") throw refusal(`names no folder after "file:"; it is ${forms}`);
  if (!rest.startsWith("//")) return decode(rest);
  try {
    return fileURLToPath(text);
  } catch {
    // another machine, an encoded slash, or no URL at all
    throw refusal("is not a file URL of this machine; three slashes begin a path: file:///folder");
  }
}

function toOrigin(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url && (url.username !== "" || url.password !== "")) throw hasCredentials("s3");
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search !== "")
    throw refusal("needs an endpoint such as https://minio.example:9000");
  return url.origin;
}

/** The path without slashes at its ends. */
function withoutSlashes(path: string): string {
  let start = 0;
  let end = path.length;
  while (path[start] === "/") start += 1;
  while (end > start && path[end - 1] === "/") end -= 1;
  return path.slice(start, end);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refusal("has an invalid percent escape; write % as %25");
  }
}

function hasCredentials(kind: string): TypeError {
  return refusal(
    `has credentials in it, and URLs end up in logs and histories; ${credentialSources[kind]}`,
  );
}

function refusal(what: string): TypeError {
  return new TypeError(`the storage URL ${what}`);
}
