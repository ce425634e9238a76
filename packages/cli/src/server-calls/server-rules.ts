import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { placeOf, portOf, setServerRules } from "@sluice/core/internal/node";
import { errnoOf, fault } from "../terminal/failure.ts";

/** How to reach servers of networks with authorities and names of their own, as curl has it. */
export interface NetworkOptions {
  /** File of certificates in PEM that are trusted, in place of those of the system. */
  readonly cacert?: string;
  /** File of the certificate in PEM that the server is shown. */
  readonly cert?: string;
  /** File of its key. Default: that of `cert`. */
  readonly key?: string;
  /** Where hosts are. */
  readonly resolve?: readonly ResolvedHost[];
}

/** Addresses of a host, as `--resolve` tells them. */
export interface ResolvedHost {
  readonly host: string;
  readonly port: number;
  readonly addresses: readonly string[];
}

/**
 * Lets every connection of this process follow the options, those for bytes included; the certificate is shown only to the server
 * itself, none to a program. Throws `invalid_argument` for files that cannot be read, and for a certificate and a key that do not fit.
 */
export async function useNetwork(
  server: URL | undefined,
  { cacert, cert, key, resolve = [] }: NetworkOptions,
): Promise<void> {
  if (key !== undefined && cert === undefined)
    throw fault("invalid_argument", "--key has no effect without --cert", "also pass --cert FILE");
  if (cert === undefined && cacert === undefined && resolve.length === 0) return;
  if (cert !== undefined && !/^(?:https|wss):$/.test(server?.protocol ?? ""))
    throw fault("invalid_argument", "--cert is for https and wss", "pass the https address");
  const ca = cacert === undefined ? undefined : await readPem("--cacert", cacert, "CERTIFICATE");
  const identity =
    server && cert !== undefined
      ? {
          ...(await readIdentity(cert, key ?? cert)),
          place: placeOf(server.hostname, portOf(server)),
        }
      : undefined;
  const addresses = new Map(
    resolve.map((each) => [placeOf(each.host, each.port), each.addresses] as const),
  );
  setServerRules({ ca, identity, addresses });
}

async function readIdentity(certFile: string, keyFile: string) {
  const cert = await readPem("--cert", certFile, "CERTIFICATE");
  const key = await readPem("--key", keyFile, "PRIVATE KEY");
  ensurePair({ cert, key }, certFile, keyFile);
  return { cert, key };
}

/** Throws `invalid_argument` for a certificate and a key in PEM that do not belong to each other, or need a passphrase. */
export function ensurePair(
  pair: { readonly cert: string; readonly key: string },
  certFile: string,
  keyFile: string,
): void {
  try {
    createSecureContext(pair);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    const isLocked = /PASSWORD|PASSPHRASE|INTERRUPTED|CRYPT/.test(code);
    throw fault(
      "invalid_argument",
      isLocked
        ? `the key in ${keyFile} needs a passphrase`
        : `the key in ${keyFile} is not that of the certificate in ${certFile} (${code})`,
      isLocked
        ? "store it without one, readable by you alone: openssl pkey -in KEY -out FILE"
        : "name the files of one pair",
    );
  }
}

/** The text of a file of PEM. `kind` ends the label that one of its blocks must have. */
export async function readPem(option: string, path: string, kind: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    const why = errnoOf(error) ?? "unknown";
    throw fault("invalid_argument", `${option}: ${path} cannot be read (${why})`, "name a file");
  });
  if (text.includes(`${kind}-----`)) return text;
  throw fault(
    "invalid_argument",
    `${option}: ${path} has no ${kind.toLowerCase()} in PEM`,
    "name a file with a block -----BEGIN …-----; of DER make one with openssl",
  );
}
