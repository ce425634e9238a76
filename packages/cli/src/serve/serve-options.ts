import { isLoopbackHost } from "@sluice/core/internal";
import type { Delivery } from "@sluice/server";
import { fault } from "../terminal/failure.ts";
import { ensureNoProbe } from "./probes.ts";
import type { UserTable } from "./user-rights.ts";

/** One storage below its base URI. */
export interface MountChoice {
  readonly uri: string;
  /** Path of a folder, or URL of another storage. */
  readonly source: string;
  /** How bytes travel. Default: `auto`, and never by a redirect. */
  readonly delivery?: Delivery;
}

/** Limits of a server whose configuration sets them. */
export interface LimitChoice {
  /** Downloads and reads at the same time. Default: 256. */
  readonly streams?: number;
  /** The same of one user. Default: 32 with `users`, else all. */
  readonly streamsPerUser?: number;
  /** Largest resource in one response of `resources/read`, in bytes. Default: 2 MiB. */
  readonly maxRead?: number;
}

/** Options of `sluice serve`. */
export interface ServeCommandOptions {
  /** File that some of them came from. */
  readonly config?: string;
  /** Several storages, or those of a configuration, in place of the one that the command names. */
  readonly mounts?: readonly MountChoice[];
  /** Users of the server. Default: every caller, or every caller with `token`. */
  readonly users?: UserTable;
  /** Give links. Default: only where callers are known, or on this machine. */
  readonly links?: boolean;
  readonly limits?: LimitChoice;
  readonly host: string;
  /** 0 picks a free one. Default: 2532, with `stdio` a free one. */
  readonly port?: number;
  /** Base of the resource URIs. */
  readonly uri: string;
  /** Bearer token that every request must carry. */
  readonly token?: string | undefined;
  /** URL of the endpoint as clients see it, if it is behind a proxy. */
  readonly publicUrl?: string | undefined;
  /** File of the certificate in PEM to speak TLS with. Default: plain HTTP. */
  readonly tlsCert?: string;
  /** File of its key. */
  readonly tlsKey?: string;
  /** Serve to other machines without a token. */
  readonly allowAnonymous?: boolean;
  /** Web origins whose pages may use the server. Default: its own. */
  readonly origin?: readonly string[];
  /** File of keys that seal URLs. Default: keys that end with this process. */
  readonly keys?: string;
  /**
   * File for audit records; `false` for none. Default: one in the user's state folder for each address, with `stdio` none.
   */
  readonly audit?: string | false;
  /** Also accept WebSockets at the endpoint. */
  readonly ws?: boolean;
  /** Endings of append-only files. Default: `.log`. */
  readonly appendOnly?: readonly string[];
  /** Give models the tools that list, read and link. Default: true. */
  readonly tools?: boolean;
  /** Folder that clients may put files into. */
  readonly uploads?: string;
  /** Largest such file, in bytes. Default: 1 GiB. */
  readonly maxUpload?: number;
  /** Maximum bytes of one request of an upload, as senders are told. */
  readonly maxStep?: number;
  /** Folder that a tool may save resources into. */
  readonly saveTo?: string;
  /** Maximum size of all files saved there, in bytes. Default: 100 GiB. */
  readonly maxTotal?: number;
  /** Speak MCP over stdin and stdout; HTTP next to it serves only links, upload pages and slots. */
  readonly stdio?: boolean;
  /** Print configuration for MCP hosts, and serve nothing. */
  readonly printConfig?: boolean;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/** Port of a server that was given none. */
export const defaultPort = 2532;

/** Throws for options that would open too much, or have no effect. */
export function checkServeOptions(options: ServeCommandOptions): void {
  if (options.stdio) ensureForStdio(options);
  ensureGuarded(options, { opened: "the folder", use: "read it" });
  if (options.publicUrl !== undefined) ensureNoProbe(options.publicUrl);
  ensureUsed(options);
  if (options.users) ensureUsersAlone(options);
}

/** True for a server that only this machine can reach. */
export function isPrivate({
  host,
  publicUrl,
}: Pick<ServeCommandOptions, "host" | "publicUrl">): boolean {
  return isLoopbackHost(host) && (publicUrl === undefined || isLoopbackHost(hostIn(publicUrl)));
}

/** Throws if the options open something to other machines and do not say so. `opened`, `use`: words for it. */
export function ensureGuarded(
  options: Pick<
    ServeCommandOptions,
    "host" | "publicUrl" | "token" | "users" | "allowAnonymous" | "tlsCert" | "config"
  >,
  { opened, use }: { readonly opened: string; readonly use: string },
): void {
  const { host, publicUrl, token, users, allowAnonymous, tlsCert, config } = options;
  const urlAdvice = config === undefined ? "pass --public-url" : `add publicUrl to ${config},`;
  if (isPrivate(options)) return;
  if (token === undefined && !users && !allowAnonymous)
    throw fault(
      "invalid_argument",
      `${isLoopbackHost(host) ? publicUrl : host} would open ${opened} to other machines without authentication`,
      config === undefined
        ? `set SLUICE_TOKEN, or pass --allow-anonymous if every client may ${use}`
        : `add users to ${config}, or "allowAnonymous": true if every client may ${use}`,
    );
  if (publicUrl === undefined && tlsCert !== undefined && !isAnyAddress(host)) return;
  if (publicUrl === undefined)
    throw fault(
      "invalid_argument",
      tlsCert !== undefined
        ? `${host} is every address of this machine, and clients need one`
        : `clients of ${host} need an https address: downloads never go over plain http`,
      tlsCert !== undefined
        ? `${urlAdvice} with the https address that the certificate is for`
        : `${urlAdvice} with the address of the TLS proxy in front, or --tls-cert and --tls-key`,
    );
}

function isAnyAddress(host: string): boolean {
  return host === "0.0.0.0" || /^[0:]+$/.test(host);
}

/** The program that writes to stdin is the only client. */
function ensureForStdio(options: ServeCommandOptions): void {
  const { host, publicUrl, allowAnonymous, origin, ws, tlsCert, tlsKey } = options;
  const httpOptions = {
    "--public-url": publicUrl,
    "--allow-anonymous": allowAnonymous,
    "--origin": origin,
    "--ws": ws,
    "--tls-cert": tlsCert,
    "--tls-key": tlsKey,
  };
  ensureNone(httpOptions, "has no effect with --stdio");
  if (!isLoopbackHost(host))
    throw fault(
      "invalid_argument",
      `cannot listen on ${host} with --stdio: its links are for this machine`,
      "leave --host out",
    );
}

/** A token of everybody would make the rights of users void. */
function ensureUsersAlone({ token, allowAnonymous, stdio, config }: ServeCommandOptions): void {
  const others = {
    "--token or SLUICE_TOKEN": token,
    "--allow-anonymous": allowAnonymous,
    "--stdio": stdio,
  };
  ensureNone(others, `does not go with the users of ${config}`);
}

/** Throws for the first option that is set; `fact` says why it may not be. */
function ensureNone(options: Readonly<Record<string, unknown>>, fact: string): void {
  for (const [name, value] of Object.entries(options))
    if (value !== undefined && value !== false)
      throw fault("invalid_argument", `${name} ${fact}`, "leave one of them out");
}

/** A size without a folder would change nothing, and a port that is chosen at the start is not known before. */
function ensureUsed(options: ServeCommandOptions): void {
  const { uploads, maxUpload, maxStep, saveTo, maxTotal, printConfig, stdio, port } = options;
  const { tlsCert, tlsKey } = options;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw fault(
      "invalid_argument",
      "--tls-cert and --tls-key belong together",
      "pass both, with the files of one pair",
    );
  if (printConfig && !stdio && port === 0)
    throw fault(
      "invalid_argument",
      "settings need a fixed address, and port 0 differs each time",
      "pass --port with a number, or --stdio",
    );
  if (maxTotal !== undefined && saveTo === undefined)
    throw fault(
      "invalid_argument",
      "--max-total has no effect without --save-to",
      "pass --save-to with the folder that models may save files into",
    );
  for (const [name, value] of Object.entries({ "--max-upload": maxUpload, "--max-step": maxStep }))
    if (value !== undefined && uploads === undefined)
      throw fault(
        "invalid_argument",
        `${name} has no effect without --uploads`,
        "pass --uploads with the folder that clients may put files into",
      );
}

function hostIn(url: string): string {
  if (URL.canParse(url)) return new URL(url).hostname;
  throw fault(
    "invalid_argument",
    `${url} is not a URL`,
    "write it like https://files.example.com/mcp",
  );
}
