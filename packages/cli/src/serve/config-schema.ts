import { isLoopbackHost, MIN_STEP_BYTES } from "@sluice/core/internal";
import type { Delivery } from "@sluice/server";
import { createUriMapper } from "@sluice/storage";
import { z } from "zod";
import { parseStorageUrl } from "../storages/storage-url.ts";
import { parseBytes } from "../terminal/quantity.ts";
import { userScopes, type UserTable } from "./user-rights.ts";

/** Message of a wrong value: what it is not, and what to write. It never repeats the value, which may be a secret. */
function must(what: string, advice: string) {
  return {
    error: ({ input }: { readonly input?: unknown }): string =>
      input === undefined ? `is missing; ${advice}` : `is not ${what}; ${advice}`,
  };
}

/** An object of these keys and no others. */
function section<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: ({ code, input }) => {
      if (code === "unrecognized_keys") return `is unknown; the keys here are ${names}`;
      const what = input === undefined ? "is missing" : "is not an object";
      return `${what}; write { … } with the keys ${names}`;
    },
  });
}

/** A list with at least one entry. */
function list<Entry extends z.ZodType>(entry: Entry, advice: string) {
  const error = must("a list with an entry", advice);
  return z.array(entry, error).min(1, error);
}

function text(what: string, advice: string) {
  const error = must(what, advice);
  return z.string(error).min(1, error);
}

function whole(min: number, max: number) {
  const error = must("such a number", `write a whole number from ${min} to ${max}`);
  // a variable of the environment is text
  return z.preprocess(
    (value) => (typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value),
    z.int(error).min(min, error).max(max, error),
  );
}

/** A size, in bytes. */
function size(min: number, advice: string) {
  const error = must("a size", advice);
  return z
    .string(error)
    .transform((value) => parseBytes(value) ?? 0)
    .refine((bytes) => bytes >= min, error);
}

const isOn = z.boolean(must("true or false", "write true or false, without quotes"));
const folderPath = text("the path of a folder", "write the path of a folder");
const filePath = text("the path of a file", "write the path of a file");
const anySize = size(1, 'write a size such as "500M" or "20G"');

/** `https:`, or `http:` on this machine. */
function isSafeUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, hostname, username, password } = new URL(value);
  if (username !== "" || password !== "") return false;
  return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname));
}

function safeUrl(example: string) {
  const error = must("an https URL without credentials", `write it like ${example}`);
  return z.string(error).refine(isSafeUrl, error);
}

function isOrigin(value: string): boolean {
  return URL.canParse(value) && new URL(value).origin === value;
}

const originError = must("an origin", "write it without a path, such as http://localhost:6274");

const delivery = z.enum(
  ["auto", "direct", "redirect", "downloadUrl"],
  must("a delivery", "write auto, direct, redirect or downloadUrl"),
);

/** A folder, or the URL of another storage. */
const storage = z
  .string(must("a folder or a URL", "write a folder, or a URL such as s3://bucket/prefix"))
  .superRefine((value, context) => {
    try {
      parseStorageUrl(value);
    } catch (error) {
      const message = (error as Error).message.replace(/^the storage URL /, "");
      context.addIssue({ code: "custom", message });
    }
  });

const baseError = must("a base URI", "write it like files://reports/, with a slash at its end");
const baseUri = z.string(baseError).refine((value) => {
  try {
    return createUriMapper(value).baseUri === value;
  } catch {
    return false;
  }
}, baseError);

const nameError = must("a name", "use letters, digits and . _ @ -, at most 64");
const digestError = must(
  "a SHA-256 digest",
  `write 64 hex digits, never the token: printf %s "$TOKEN" | sha256sum`,
);
const scope = z.enum(userScopes, must("a scope", `write ${userScopes.join(", ")}`));

/** What each user may do, and below which URIs. */
const rights = {
  scopes: list(scope, `name one or more of ${userScopes.join(", ")}`),
  folders: list(
    text("the URI of a folder", "write it like files://reports/2026/"),
    "name one, or leave the key out for all mounts",
  ).optional(),
};

const users = section({
  tokens: list(
    section({
      name: z.string(nameError).regex(/^[\w.@-]{1,64}$/, nameError),
      sha256: z
        .string(digestError)
        .regex(/^[0-9a-f]{64}$/i, digestError)
        .toLowerCase(),
      ...rights,
    }),
    "add a user, or leave the key out",
  ).optional(),
  jwt: section({
    issuer: safeUrl("https://id.example.com"),
    audience: text("an audience", "write what the issuer puts into aud, such as the publicUrl"),
    jwks: safeUrl("https://id.example.com/jwks.json"),
    ...rights,
  }).optional(),
});

/** The keys of a configuration of `sluice serve`. */
const keys = section({
  mounts: list(
    section({ uri: baseUri, storage, delivery: delivery.optional() }),
    'add { "uri": "files://local/", "storage": "./files" }',
  ),
  listen: section({
    host: text("an address", "write an address such as 127.0.0.1").optional(),
    port: whole(0, 65_535).optional(),
  }).optional(),
  publicUrl: safeUrl("https://files.example.com/mcp").optional(),
  allowAnonymous: isOn.optional(),
  origins: list(
    z.string(originError).refine(isOrigin, originError),
    "name one, or leave the key out",
  ).optional(),
  ws: isOn.optional(),
  tools: isOn.optional(),
  links: isOn.optional(),
  delivery: delivery.optional(),
  appendOnly: list(
    text("an ending", "write an ending such as .log"),
    "name one, or leave the key out",
  ).optional(),
  uploads: section({
    folder: folderPath,
    maxFile: anySize.optional(),
    maxStep: size(MIN_STEP_BYTES, 'write 64K or more, such as "1M"').optional(),
  }).optional(),
  saveTo: section({ folder: folderPath, maxTotal: anySize.optional() }).optional(),
  keys: filePath.optional(),
  audit: z
    .union(
      [z.literal(false), filePath],
      must("a file or false", "write the path of a file, or false for no record"),
    )
    .optional(),
  limits: section({
    streams: whole(1, 100_000).optional(),
    streamsPerUser: whole(1, 100_000).optional(),
    maxRead: size(1_024, 'write 1K or more, such as "2M"').optional(),
  }).optional(),
  users: users.optional(),
});

/** A configuration that was read. Sizes are in bytes. */
export interface ServeConfig {
  readonly mounts: readonly ServedMount[];
  readonly listen?:
    | { readonly host?: string | undefined; readonly port?: number | undefined }
    | undefined;
  readonly publicUrl?: string | undefined;
  readonly allowAnonymous?: boolean | undefined;
  readonly origins?: readonly string[] | undefined;
  readonly ws?: boolean | undefined;
  readonly tools?: boolean | undefined;
  readonly links?: boolean | undefined;
  readonly delivery?: Delivery | undefined;
  readonly appendOnly?: readonly string[] | undefined;
  readonly uploads?: UploadFolder | undefined;
  readonly saveTo?: { readonly folder: string; readonly maxTotal?: number | undefined } | undefined;
  readonly keys?: string | undefined;
  readonly audit?: string | false | undefined;
  readonly limits?: ReadLimits | undefined;
  readonly users?: UserTable | undefined;
}

interface ServedMount {
  readonly uri: string;
  readonly storage: string;
  readonly delivery?: Delivery | undefined;
}

interface UploadFolder {
  readonly folder: string;
  readonly maxFile?: number | undefined;
  readonly maxStep?: number | undefined;
}

interface ReadLimits {
  readonly streams?: number | undefined;
  readonly streamsPerUser?: number | undefined;
  readonly maxRead?: number | undefined;
}

/** The schema: each value by itself, then what they say of each other. */
export const configSchema: z.ZodType<ServeConfig> = keys.superRefine((config, context) => {
  for (const { path, message } of contradictions(config))
    context.addIssue({ code: "custom", path, message });
});

interface Contradiction {
  readonly path: (string | number)[];
  readonly message: string;
}

function* contradictions(config: ServeConfig): Generator<Contradiction> {
  const bases = config.mounts.map(({ uri }) => uri);
  for (const [
    at,
    { uri, storage: place, delivery: mode = config.delivery },
  ] of config.mounts.entries()) {
    const path = ["mounts", at];
    if (bases.some((base, other) => other !== at && uri.startsWith(base)))
      yield { path: [...path, "uri"], message: "is another mount or below one; write another URI" };
    if (mode === "redirect" && parseStorageUrl(place).kind === "file")
      yield {
        path: [...path, "storage"],
        message: "is a folder, to which no redirect leads; write another delivery than redirect",
      };
  }
  if (config.users) yield* userContradictions(config.users, bases);
}

function* userContradictions(
  { tokens = [], jwt }: NonNullable<ServeConfig["users"]>,
  bases: readonly string[],
): Generator<Contradiction> {
  if (tokens.length === 0 && !jwt)
    yield { path: ["users"], message: "has nobody in it; add tokens or jwt" };
  for (const [at, user] of tokens.entries()) {
    const path = ["users", "tokens", at];
    const before = tokens.slice(0, at);
    if (before.some(({ name }) => name === user.name))
      yield { path: [...path, "name"], message: "is there twice; give each user its own" };
    if (before.some(({ sha256 }) => sha256 === user.sha256))
      yield { path: [...path, "sha256"], message: "is there twice; give each user its own token" };
    yield* folderContradictions(user.folders, bases, path);
  }
  yield* folderContradictions(jwt?.folders, bases, ["users", "jwt"]);
}

/** Rules compare prefixes of canonical URIs: another spelling would match nothing, and one without a slash too much. */
function* folderContradictions(
  folders: readonly string[] = [],
  bases: readonly string[],
  path: (string | number)[],
): Generator<Contradiction> {
  for (const [at, folder] of folders.entries()) {
    const base = bases.find((uri) => folder.startsWith(uri));
    if (folder === base) continue;
    const message =
      base === undefined
        ? `is below no mount; begin it with ${bases.join(" or ")}`
        : canonicalFault(folder, base);
    if (message !== undefined) yield { path: [...path, "folders", at], message };
  }
}

function canonicalFault(folder: string, base: string): string | undefined {
  if (!folder.endsWith("/")) return "is not a folder; end it with a slash";
  const uri = folder.slice(0, -1);
  const mapper = createUriMapper(base);
  try {
    const canonical = mapper.toUri(mapper.toKey(uri));
    return canonical === uri ? undefined : `is not in canonical form; write ${canonical}/`;
  } catch {
    return "is not a legal URI; write it as `sluice ls` prints it";
  }
}
