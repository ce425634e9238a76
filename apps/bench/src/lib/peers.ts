/** Other servers of files: nginx in four roles, and what Node programs use. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Bench } from "./bench.ts";
import { isInstalled } from "./load.ts";
import { runToEnd, startNodeServer, startOutsideServer, type ServerProcess } from "./processes.ts";
import { freePort } from "./program.ts";

/** PEM files of a certificate and its key. */
export interface Tls {
  readonly certificate: string;
  readonly key: string;
}

// their names in the tables
export const nginx = "nginx sendfile";
export const pump = "two buffers, no checks";
export const fromMemory = "bare Node, from memory";
export const fromMemoryChecked = "bare Node, from memory, our headers and one look at the file";
export const send = "send";
export const sendTuned = "send, 1 MiB chunks";
export const expressStatic = "express static";
export const sirv = "sirv";
export const hono = "hono static";

/** The kind of `file-server` by name; nginx is a program of its own. */
const kinds: Readonly<Record<string, string>> = {
  [pump]: "pump",
  [fromMemory]: "memory",
  [fromMemoryChecked]: "memory-look",
  [send]: "send",
  [sendTuned]: "send-1m",
  [expressStatic]: "express",
  [sirv]: "sirv",
  [hono]: "hono",
};

/** Starts a peer on the files of the bench; `undefined` when it is not installed here. */
export async function startPeer(
  name: string,
  bench: Bench,
  tls?: Tls,
): Promise<ServerProcess | undefined> {
  const kind = kinds[name];
  if (kind !== undefined) {
    const pair = tls ? [tls.certificate, tls.key] : [];
    return startNodeServer("file-server", [kind, bench.files, ...pair], bench);
  }
  if (!(await isInstalled("nginx"))) return undefined;
  const secure = tls && `ssl_certificate ${tls.certificate}; ssl_certificate_key ${tls.key};`;
  return startNginx(bench, `${secure ?? ""} root ${bench.files};`, { isTls: tls !== undefined });
}

// no copy on disk: what the client does not take yet, the server behind keeps
const buffers = "proxy_max_temp_file_size 0; proxy_buffers 8 256k;";
const kept = 'proxy_http_version 1.1; proxy_set_header Connection "";';

/** nginx in front of the server at `to`, which gives each connection `limitRate` bytes a second ("20m"). */
export function startSlowProxy(
  bench: Bench,
  {
    port,
    to,
    limitRate,
  }: { readonly port: number; readonly to: number; readonly limitRate: string },
): Promise<ServerProcess> {
  const pass = `proxy_pass http://127.0.0.1:${to}; proxy_set_header Host $http_host;`;
  return startNginx(
    bench,
    `limit_rate ${limitRate}; location / { ${pass} proxy_http_version 1.1; ${buffers} }`,
    { port },
  );
}

/** nginx whose `/object` passes on one URL of another server. */
export function startNginxPass(bench: Bench, url: string): Promise<ServerProcess> {
  return startNginx(bench, `location = /object { proxy_pass "${url}"; ${kept} ${buffers} }`);
}

/** Where nginx takes over a file, and what tells the server that it may leave it. */
export interface OffloadPlace {
  readonly prefix: string;
  readonly secret: string;
}

/** nginx in front of the server at `to`, which leaves the sending of files to it. */
export function startNginxOffload(
  bench: Bench,
  { port, to, prefix, secret }: OffloadPlace & { readonly port: number; readonly to: number },
): Promise<ServerProcess> {
  const pass = `proxy_pass http://127.0.0.1:${to}; ${kept} proxy_set_header Host $http_host;`;
  return startNginx(
    bench,
    `location / { ${pass} proxy_set_header X-Sluice-Offload ${secret}; }
     location ^~ ${prefix} { internal; alias ${bench.files}/; etag off; add_header ETag $upstream_http_etag; }`,
    { port },
  );
}

/** nginx as it is set up for static files, unprivileged. */
async function startNginx(
  bench: Bench,
  server: string,
  options: { readonly port?: number; readonly isTls?: boolean } = {},
): Promise<ServerProcess> {
  const port = options.port ?? (await freePort());
  const directory = await bench.scratch("nginx");
  await mkdir(join(directory, "tmp"));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path tmp/${kind};`)
    .join(" ");
  // a worker of root's nginx would become the user "nobody", which may not read the directory
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const config = `
daemon off;
${user}
worker_processes 1; # as Node has one loop
pid nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  ${temporary}
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  server { listen 127.0.0.1:${port}${options.isTls ? " ssl" : ""}; ${server} }
}
`;
  await writeFile(join(directory, "nginx.conf"), config);
  // the -e of the command line keeps it away from the log path that it was compiled with
  const args = ["-p", directory, "-c", "nginx.conf", "-e", "stderr"];
  return startOutsideServer("nginx", args, { port, signal: bench.signal });
}

/** A new self-signed certificate and its key, made by openssl. */
export async function createCertificate(bench: Bench): Promise<Tls> {
  const directory = await bench.scratch("tls");
  const tls = { certificate: join(directory, "cert.pem"), key: join(directory, "key.pem") };
  const subject = "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1";
  const request = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ${subject}`;
  const files = ["-keyout", tls.key, "-out", tls.certificate];
  await runToEnd("openssl", [...request.split(" "), ...files], bench);
  return tls;
}
