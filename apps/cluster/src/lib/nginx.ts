import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startChild, type Child } from "./child.ts";

/** Ports of nginx, and of the processes behind it. */
export interface SitePorts {
  readonly port: number;
  readonly processes: readonly number[];
}

const page = fileURLToPath(new URL("../../../../docs/guides/deploy/nginx.md", import.meta.url));

/**
 * The configuration that docs/guides/deploy/nginx.md shows, with other ports, and with as many processes as there are.
 * An error when the page no longer says what it must.
 */
export function siteOf(markdown: string, { port, processes }: SitePorts): string {
  const documented = /^```nginx\n([\s\S]*?)^```$/m.exec(markdown)?.[1] ?? "";
  const process = /^ *server 127\.0\.0\.1:800\d\b(.*);\n/gm;
  const [first] = documented.match(process) ?? [];
  if (first === undefined || !documented.includes("listen 8000;"))
    throw new Error(
      "cluster: docs/guides/deploy/nginx.md has no nginx configuration for port 8000",
    );
  let isFirst = true;
  return documented
    .replace(process, () => {
      if (!isFirst) return "";
      isFirst = false;
      return processes.map((each) => first.replace(/800\d/, String(each))).join("");
    })
    .replace("listen 8000;", `listen 127.0.0.1:${port};`);
}

/** Starts nginx with that configuration, in a folder of its own and without root. */
export async function startNginx(folder: string, ports: SitePorts): Promise<Child> {
  const site = siteOf(await readFile(page, "utf8"), ports);
  await mkdir(join(folder, "tmp"), { recursive: true });
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/tmp/${name};`)
    .join(" ");
  await writeFile(
    join(folder, "nginx.conf"),
    `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr notice;
events { worker_connections 1024; }
http { access_log off; ${temporary}
${site}}
`,
  );
  return startChild("nginx", {
    args: ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"],
    ready: /using the ".+" event method/,
  });
}

/** A port of this machine that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
