import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort, startOutsideServer, type ServerProcess } from "./server-process.ts";

/** Options of every nginx here. */
interface NginxPlace {
  /** A directory of its own for configuration and state. */
  readonly directory: string;
  readonly signal: AbortSignal;
}

/** Options of {@link startNginx}. */
export interface NginxOptions extends NginxPlace {
  /** What it serves. */
  readonly root: string;
  /** PEM files: serves HTTPS. */
  readonly tls?: { readonly certificate: string; readonly key: string };
}

/** nginx as it is set up for static files, unprivileged. */
export async function startNginx(options: NginxOptions): Promise<ServerProcess> {
  const port = await freePort();
  const { tls } = options;
  const certificate = tls
    ? `ssl_certificate ${tls.certificate}; ssl_certificate_key ${tls.key};`
    : "";
  return start(
    port,
    `listen 127.0.0.1:${port}${tls ? " ssl" : ""}; ${certificate} root ${options.root};`,
    options,
  );
}

/** Options of {@link startNginxProxy}. */
export interface NginxProxyOptions extends NginxPlace {
  readonly port: number;
  /** Port of the server behind it. */
  readonly to: number;
  /** Bytes a second that each connection gets, in nginx's spelling ("20m"). */
  readonly limitRate: string;
}

/** nginx in front of another server, slow on purpose. */
export async function startNginxProxy(options: NginxProxyOptions): Promise<ServerProcess> {
  const pass = `proxy_pass http://127.0.0.1:${options.to}; proxy_set_header Host $http_host;`;
  // no copy on disk: what the client does not take yet, the server behind keeps
  const buffers = "proxy_http_version 1.1; proxy_max_temp_file_size 0; proxy_buffers 8 256k;";
  return start(
    options.port,
    `listen 127.0.0.1:${options.port}; limit_rate ${options.limitRate}; location / { ${pass} ${buffers} }`,
    options,
  );
}

/** Options of {@link startNginxPass}. */
export interface NginxPassOptions extends NginxPlace {
  /** Where `/object` leads. */
  readonly url: string;
}

/** nginx that passes on one URL of another server. */
export async function startNginxPass(options: NginxPassOptions): Promise<ServerProcess> {
  const port = await freePort();
  // no copy on disk, buffers as large as those of the others
  const buffers = "proxy_max_temp_file_size 0; proxy_buffers 8 256k;";
  const kept = 'proxy_http_version 1.1; proxy_set_header Connection "";';
  return start(
    port,
    `listen 127.0.0.1:${port};
     location = /object { proxy_pass "${options.url}"; ${kept} ${buffers} }`,
    options,
  );
}

/** Options of {@link startNginxOffload}. */
export interface NginxOffloadOptions extends NginxPlace {
  readonly port: number;
  /** Port of the server behind it. */
  readonly to: number;
  /** The files of that server. */
  readonly root: string;
  readonly prefix: string;
  readonly secret: string;
}

/** nginx in front of a server that leaves the sending of files to it. */
export async function startNginxOffload(options: NginxOffloadOptions): Promise<ServerProcess> {
  const { port, to, root, prefix, secret } = options;
  const pass = `proxy_pass http://127.0.0.1:${to}; proxy_http_version 1.1; proxy_set_header Host $http_host;`;
  return start(
    port,
    `listen 127.0.0.1:${port};
     location / { ${pass} proxy_set_header Connection ""; proxy_set_header X-Sluice-Offload ${secret}; }
     location ^~ ${prefix} { internal; alias ${root}/; etag off; add_header ETag $upstream_http_etag; }`,
    options,
  );
}

async function start(port: number, server: string, options: NginxPlace): Promise<ServerProcess> {
  await mkdir(join(options.directory, "tmp"), { recursive: true });
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
  server { ${server} }
}
`;
  await writeFile(join(options.directory, "nginx.conf"), config);
  // the -e of the command line keeps it away from the log path that it was compiled with
  const args = ["-p", options.directory, "-c", "nginx.conf", "-e", "stderr"];
  return startOutsideServer("nginx", args, { port, signal: options.signal });
}
