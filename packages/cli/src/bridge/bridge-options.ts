import type { NetworkOptions } from "../server-calls/server-rules.ts";
import { fault } from "../terminal/failure.ts";

/** Options of `sluice bridge`. */
export interface BridgeCommandOptions extends NetworkOptions {
  /** Headers of every request to the server: `Name: value`. */
  readonly header?: readonly string[];
  /** Bearer token: for the server; with `http` the one that every request of a host must carry. */
  readonly token?: string | undefined;
  /** Bearer token for the server. */
  readonly serverToken?: string | undefined;
  /** Sign in with a browser if the server asks for it. */
  readonly browser: boolean;
  /** Folder that files and large results are saved to. */
  readonly saveTo?: string;
  /** Folders that files are sent from. */
  readonly sendFrom?: readonly string[];
  /** Maximum bytes of a string that stays in the result. */
  readonly inline?: number;
  /** Storage URL: where larger ones are stored with `http`. Default: memory. */
  readonly resultsTo?: string;
  /** Maximum bytes of all of them. */
  readonly maxHeld?: number;
  /** Put larger ones into files, with `http` behind links. */
  readonly spool: boolean;
  /** Bytes. */
  readonly maxSave?: number;
  /** Bytes of everything that bridges saved to the folder. */
  readonly maxTotal?: number;
  /** Days after which unchanged saved files are removed. */
  readonly forgetSaved?: number;
  /** Further origins that bytes may come from and go to. */
  readonly trust?: readonly string[];
  /** Maximum bytes of one request of an upload. */
  readonly maxStep?: number;
  /** Bytes of a file up to which the user is not asked. */
  readonly yesBelow?: number;
  /** Serve hosts over HTTP, not over stdin and stdout. */
  readonly http?: boolean;
  /** Address to listen on. Default: 127.0.0.1. */
  readonly host?: string;
  /** 0 picks a free one. Default: 2532. */
  readonly port?: number;
  /** URL of the endpoint as hosts see it, if it is behind a proxy. */
  readonly publicUrl?: string | undefined;
  /** Take hosts of other machines without a token. */
  readonly allowAnonymous?: boolean;
  /** Web origins whose pages may use the bridge. Default: its own. */
  readonly origin?: readonly string[];
  /** Only print the configuration for hosts. */
  readonly printConfig?: boolean;
  /** Ends the bridge. */
  readonly signal: AbortSignal;
}

/** Throws for options that would have no effect. */
export function checkBridgeOptions(options: BridgeCommandOptions): void {
  const { http, host, port, publicUrl, allowAnonymous, origin, token, serverToken } = options;
  const forResults = { "--results-to": options.resultsTo, "--max-held": options.maxHeld };
  const forHttp = {
    "--host": host,
    "--port": port,
    "--public-url": publicUrl,
    "--allow-anonymous": allowAnonymous,
    "--origin": origin,
    ...forResults,
  };
  const { saveTo, sendFrom, maxSave, maxTotal, forgetSaved, trust, maxStep, yesBelow } = options;
  const forFolders = {
    "--save-to": saveTo,
    "--send-from": sendFrom,
    "--max-save": maxSave,
    "--max-total": maxTotal,
    "--forget-saved": forgetSaved,
    "--trust": trust,
    "--max-step": maxStep,
    "--yes-below": yesBelow,
  };
  if (http) ensureAbsent(forFolders, "with --http", "hosts have no folder on this machine");
  else ensureAbsent(forHttp, "without --http", "also pass --http");
  if (!options.spool)
    ensureAbsent(
      { ...forResults, "--inline": options.inline },
      "with --no-spool",
      "leave one of them out",
    );
  if (!http && token !== undefined && serverToken !== undefined)
    throw fault(
      "invalid_argument",
      "--token and --server-token are the same without --http",
      "leave one of them out; SLUICE_TOKEN is --token",
    );
}

function ensureAbsent(
  given: Readonly<Record<string, unknown>>,
  when: string,
  advice: string,
): void {
  for (const [name, value] of Object.entries(given))
    if (value !== undefined)
      throw fault("invalid_argument", `${name} has no effect ${when}`, advice);
}
