import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { chromium, type Browser } from "playwright-core";
import { build } from "vite";
import { listen, type Listening } from "./listen.ts";

const executablePath = "/usr/bin/chromium";

/** Whether there is one to start. */
export const hasBrowser = existsSync(executablePath);

/** A Chromium with a profile of its own that makes no connections on its own account. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
    handleSIGHUP: false,
    handleSIGINT: false,
    handleSIGTERM: false,
  });
}

/** A web server with one page, which runs a program, and tickets for every request at its ticket path. */
export async function servePage(
  issue: () => Promise<string>,
  program = "programs/page.ts",
): Promise<Listening> {
  const script = await bundlePage(program);
  const http = createServer((request, response) => {
    if (request.method === "POST") {
      issue().then(
        (ticket) => response.setHeader("cache-control", "no-store").end(ticket),
        () => response.writeHead(500).end(),
      );
    } else {
      response.setHeader("content-type", "text/html");
      response.end(`<!doctype html><link rel="icon" href="data:,"><script>${script}</script>`);
    }
  });
  return listen(http);
}

/** As an application would be bundled, from the packages' sources. */
async function bundlePage(program: string): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", "module", "browser"] },
    build: {
      write: false,
      lib: {
        entry: fileURLToPath(new URL(program, import.meta.url)),
        formats: ["iife"],
        name: "page",
      },
    },
  });
  const [{ output }] = [built].flat() as unknown as [{ output: [{ code: string }] }];
  return output[0].code.replaceAll("</script", "<\\/script");
}
