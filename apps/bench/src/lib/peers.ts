import { join } from "node:path";
import type { Bench } from "./bench.ts";
import { isInstalled } from "./outside-client.ts";
import { startNginx, type NginxOptions } from "./nginx.ts";
import { startNodeServer, type ServerProcess } from "./server-process.ts";

/** PEM files of a certificate and its key. */
export type Tls = NonNullable<NginxOptions["tls"]>;

/** Another server of files to compare with. */
export interface Peer {
  readonly name: string;
  /** First argument of `file-server`; absent for nginx. */
  readonly kind?: string;
}

export const nginx: Peer = { name: "nginx sendfile" };
export const pump: Peer = { name: "two buffers, no checks", kind: "pump" };
export const fromMemory: Peer = { name: "bare Node, from memory", kind: "memory" };
export const fromMemoryChecked: Peer = {
  name: "bare Node, from memory, our headers and one look at the file",
  kind: "memory-look",
};
export const send: Peer = { name: "send", kind: "send" };
export const sendTuned: Peer = { name: "send, 1 MiB chunks", kind: "send-1m" };
export const expressStatic: Peer = { name: "express static", kind: "express" };
export const sirv: Peer = { name: "sirv", kind: "sirv" };
export const hono: Peer = { name: "hono static", kind: "hono" };

/** Starts a peer on the files of the bench; `undefined` when it is not installed here. */
export async function startPeer(
  peer: Peer,
  bench: Bench,
  options: Pick<NginxOptions, "tls"> = {},
): Promise<ServerProcess | undefined> {
  if (peer.kind !== undefined) {
    const tls = options.tls ? [options.tls.certificate, options.tls.key] : [];
    return startNodeServer("file-server", [peer.kind, bench.files, ...tls], bench);
  }
  if (!(await isInstalled("nginx"))) return undefined;
  const directory = await bench.scratch("nginx");
  return startNginx({ ...options, directory, root: bench.files, signal: bench.signal });
}

/** Path of a new self-signed certificate and its key, made by openssl. */
export async function createCertificate(
  bench: Bench,
  run: (command: string, args: readonly string[]) => Promise<unknown>,
): Promise<Tls> {
  const directory = await bench.scratch("tls");
  const tls = { certificate: join(directory, "cert.pem"), key: join(directory, "key.pem") };
  const subject = "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1";
  const request = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ${subject}`;
  await run("openssl", [...request.split(" "), "-keyout", tls.key, "-out", tls.certificate]);
  return tls;
}
