import * as z from "zod";

/** What one process of the cluster is told, by the environment. */
export interface Settings {
  /** Names the process in answers and on its terminal. */
  readonly name: string;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** The endpoint as clients see it, the same for all processes. */
  readonly endpoint: string;
  /** Access tokens and whose they are. */
  readonly tokens: ReadonlyMap<string, string>;
  readonly keysFile: string;
  readonly auditFile: string;
  readonly redis: string;
  /** Redis remembers through a restart whatever it answered. */
  readonly redisDurable: boolean;
  readonly bucket: string;
  /** Folder in it that is served. */
  readonly prefix: string | undefined;
  /** A store other than Amazon's. */
  readonly s3Endpoint: string | undefined;
  readonly requestsPerMinute: number;
  readonly drainMs: number;
}

const wholeNumber = (least: number, most: number) =>
  z.coerce.number("must be a number").int().min(least).max(most);

const endpointWanted =
  "must be the URL of the endpoint as clients see it, such as https://example.com/mcp";
const nameWanted = "must name this process with letters, digits, . _ or -, such as a";
const redisWanted =
  "must be the URL of Redis, such as redis://127.0.0.1:6379, or the path of its socket";

const environment = z.object({
  NAME: z.string(nameWanted).regex(/^[\w.-]+$/, nameWanted),
  HOST: z.string().default("127.0.0.1"),
  PORT: wholeNumber(0, 65_535).default(0),
  PUBLIC_URL: z
    .string(endpointWanted)
    .refine(
      (url) => /^https?:/.test(url) && URL.canParse(url) && new URL(url).pathname === "/mcp",
      endpointWanted,
    ),
  ACCESS_TOKENS: z
    .string("must be subject=token, several with commas between them")
    .regex(/^\w+=[^\s,=]{16,}(,\w+=[^\s,=]{16,})*$/, {
      error:
        "must be subject=token, several with commas between them, each token of 16 characters or more without , or =",
    })
    .refine(
      (list) => new Set(tokensIn(list).map(([token]) => token)).size === tokensIn(list).length,
      "must not give one token to two",
    ),
  KEYS_FILE: z.string("must be a file of keys: make one with `sluice keys new`"),
  AUDIT_FILE: z.string("must be a file of this process's own, for its audit trail"),
  REDIS_URL: z
    .string(redisWanted)
    .refine(
      (at) => at.startsWith("/") || (/^rediss?:\/\//.test(at) && URL.canParse(at)),
      redisWanted,
    ),
  REDIS_DURABLE: z.stringbool("must be true or false").default(false),
  S3_BUCKET: z.string("must be the name of the bucket"),
  S3_PREFIX: z.string().optional(),
  S3_ENDPOINT: z
    .url({ protocol: /^https?$/, error: "must be the http: or https: URL of the store" })
    .optional(),
  REQUESTS_PER_MINUTE: wholeNumber(1, 1_000_000).default(600),
  DRAIN_SECONDS: wholeNumber(0, 3_600).default(25),
});

/**
 * Reads them; an empty variable is one that is not there. Throws a `TypeError` that names every variable that
 * is missing or wrong, and repeats no value.
 */
export function readSettings(variables: Readonly<Record<string, string | undefined>>): Settings {
  const given = Object.entries(variables).filter(([, value]) => value !== "");
  const read = environment.safeParse(Object.fromEntries(given));
  if (!read.success) {
    const lines = read.error.issues.map(({ path, message }) => `  ${path.join(".")} ${message}`);
    throw new TypeError(`cluster: the environment is not what it must be\n${lines.join("\n")}`);
  }
  const { data } = read;
  return {
    name: data.NAME,
    host: data.HOST,
    port: data.PORT,
    endpoint: data.PUBLIC_URL,
    tokens: new Map(tokensIn(data.ACCESS_TOKENS)),
    keysFile: data.KEYS_FILE,
    auditFile: data.AUDIT_FILE,
    redis: data.REDIS_URL,
    redisDurable: data.REDIS_DURABLE,
    bucket: data.S3_BUCKET,
    prefix: data.S3_PREFIX,
    s3Endpoint: data.S3_ENDPOINT,
    requestsPerMinute: data.REQUESTS_PER_MINUTE,
    drainMs: data.DRAIN_SECONDS * 1_000,
  };
}

/** Tokens and whose they are. */
function tokensIn(list: string): [token: string, subject: string][] {
  return list.split(",").map((entry) => {
    const [subject = "", token = ""] = entry.split("=");
    return [token, subject];
  });
}
