import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { z } from "zod";
import { definedMembers } from "@sluice/core/internal";
import { errnoOf, fault } from "../terminal/failure.ts";
import type { ServerCallOptions } from "./connect.ts";

/** Options that a name stands for besides its URL. */
export type NamedOptions = Pick<ServerCallOptions, "header" | "trust" | "cacert" | "cert" | "key">;

const namePattern = /^[\w-]{1,64}$/;

const configSchema = z.strictObject({
  servers: z.record(
    z.string().regex(namePattern, "has other characters than letters, digits, - and _"),
    z.strictObject({
      url: z.url({ protocol: /^(?:https?|wss?)$/, error: "is not an http, https, ws or wss URL" }),
      header: z.array(z.string()).optional(),
      trust: z.array(z.string()).optional(),
      cacert: z.string().optional(),
      cert: z.string().optional(),
      key: z.string().optional(),
    }),
  ),
});

/** The file of names: `$XDG_CONFIG_HOME/sluice/servers.json`, on Windows in `%APPDATA%`. */
function namesFile(env: NodeJS.ProcessEnv = process.env): string {
  const { XDG_CONFIG_HOME: xdg, APPDATA: roaming } = env;
  const base =
    process.platform === "win32"
      ? roaming || join(homedir(), "AppData", "Roaming")
      : xdg || join(homedir(), ".config");
  return join(base, "sluice", "servers.json");
}

/**
 * The URL and options of a server: of the name that an argument is, with what the command line adds, or the argument itself. Files
 * are named from the folder of the file. Throws `invalid_argument`, with the key, for a file that is malformed.
 */
export async function serverNamed<Given extends NamedOptions>(
  argument: string,
  options: Given,
): Promise<readonly [string, Given]> {
  const entry = namePattern.test(argument) ? (await readNames())[argument] : undefined;
  if (!entry) return [argument, options];
  const { url, header = [], trust = [], cacert, cert, key } = entry;
  const folder = dirname(namesFile());
  const whole = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : resolve(folder, path);
  const paths = definedMembers({ cacert: whole(cacert), cert: whole(cert), key: whole(key) });
  return [
    url,
    {
      ...paths,
      ...options,
      header: [...header, ...(options.header ?? [])],
      trust: [...trust, ...(options.trust ?? [])],
    },
  ];
}

type NamedServers = z.infer<typeof configSchema>["servers"];

async function readNames(): Promise<Partial<NamedServers>> {
  const path = namesFile();
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw fault(
      "invalid_argument",
      `${path} cannot be read (${errnoOf(error)})`,
      "check its permissions",
    );
  });
  if (text === undefined) return {};
  const result = configSchema.safeParse(parseJson(path, text));
  if (result.success) return result.data.servers;
  const [issue] = result.error.issues;
  const key = issue?.path.join(".") ?? "";
  throw fault(
    "invalid_argument",
    `${path}: ${key === "" ? "" : `${key}: `}${issue?.message}`,
    "correct that key",
  );
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : "";
    // a message repeats some of the text, which may hold a secret
    const [place = "malformed"] =
      /line \d+ column \d+|position \d+|end of JSON input/.exec(why) ?? [];
    throw fault("invalid_argument", `${path} is not JSON (${place})`, "correct it");
  }
}
