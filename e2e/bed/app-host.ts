// A host with MCP Apps, in a browser: the window, a sandbox on another origin as that of the official basic host, and
// a client of the server whose tools have Apps.
import { createServer } from "node:http";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { CallToolResult } from "@modelcontextprotocol/server";
import type { Browser, BrowserContextOptions, Frame, FrameLocator, Page } from "playwright-core";
import { servePage } from "./browser.ts";
import { listen } from "./listen.ts";

/** What a window shows. */
interface ShownApp {
  /** Ends with the value of its last parameter. */
  readonly sandboxUrl: string;
  readonly html: string;
  readonly csp: object;
  /** Host context and capabilities, as MCP Apps has them. */
  readonly context: object;
  readonly capabilities: object;
  /** Absent while the call is open. */
  readonly result: CallToolResult | undefined;
}

/** How the sandbox gets the App into its inner frame. */
export type SandboxKind =
  /** As the basic host: the frame has the origin of the sandbox. */
  | "written"
  /** The frame has no origin: it sends `Origin: null`. */
  | "opaque";

/** A request of an App to its host. */
export interface AppRequest {
  readonly method: string;
  readonly params: any;
}

export interface HostOptions extends BrowserContextOptions {
  readonly sandbox?: SandboxKind;
  readonly theme?: "light" | "dark";
  /** What the host does not do. */
  readonly without?: readonly ("message" | "openLinks" | "downloadFile")[];
  /** Says which requests the host refuses. */
  readonly refuses?: (request: AppRequest) => boolean;
}

/** The window of a host. */
export interface HostWindow {
  readonly page: Page;
  /** The frame of the App. */
  readonly app: FrameLocator;
  /** The same, for scripts of the test. */
  readonly frame: () => Frame;
  readonly requests: AppRequest[];
  /** Errors in the App, and what its policy refused. */
  readonly complaints: string[];
  /** URLs of requests of the App that are not its server's. */
  readonly strays: string[];
  call(name: string, args?: Record<string, unknown>): Promise<CallToolResult>;
  /** Calls a tool and shows its App with the result. */
  open(name: string, args?: Record<string, unknown>): Promise<CallToolResult>;
  /** Shows the App of a tool with a result, as when a conversation is loaded again; without one its call is open. */
  show(name: string, result?: CallToolResult): Promise<void>;
  /** Gives the App another result. */
  send(result: CallToolResult): Promise<void>;
  setTheme(theme: "light" | "dark"): Promise<void>;
  /** Posts anything to the App, as the host's window. */
  post(message: unknown): Promise<void>;
}

export interface AppHosts extends AsyncDisposable {
  /** Opens a window over the server at this URL. */
  open(serverUrl: string, options?: HostOptions): Promise<HostWindow>;
}

/** Starts the servers of hosts: one for windows, one for sandboxes. */
export async function startAppHosts(browser: Browser): Promise<AppHosts> {
  const windows = await servePage(async () => "", "programs/app-host.mjs");
  const sandboxes = await listen(
    createServer((request, response) => {
      const { searchParams } = new URL(request.url ?? "", "http://localhost");
      const csp = JSON.parse(searchParams.get("csp") ?? "{}") as Parameters<typeof policyOf>[0];
      response.setHeader("content-type", "text/html");
      response.setHeader("content-security-policy", policyOf(csp));
      response.end(sandboxPage(searchParams.get("kind") === "opaque"));
    }),
  );
  // another site than that of the window and of the server
  const sandboxUrl = `http://localhost:${sandboxes.port}/?kind=`;
  const clients: Client[] = [];

  async function open(serverUrl: string, options: HostOptions = {}): Promise<HostWindow> {
    const { sandbox = "written", theme, without = [], refuses, ...contextOptions } = options;
    const client = new Client(
      { name: "test", version: "1.0.0" },
      { capabilities: withApps, versionNegotiation: { mode: "auto" } },
    );
    clients.push(client);
    await client.connect(new StreamableHTTPClientTransport(new URL(serverUrl)));
    const page = await (await browser.newContext(contextOptions)).newPage();
    page.setDefaultTimeout(10_000);
    const requests: AppRequest[] = [];
    const complaints: string[] = [];
    const strays: string[] = [];
    page.on("pageerror", ({ message }) => complaints.push(message));
    page.on("dialog", (box) => complaints.push(`dialog ${box.message()}`));
    page.on("console", (line) => {
      if (/security policy|trusted/i.test(line.text())) complaints.push(line.text());
    });
    const known = [windows.origin, `http://localhost:${sandboxes.port}`, new URL(serverUrl).origin];
    page.on("request", (request) => {
      const url = request.url();
      if (!known.some((origin) => url.startsWith(origin)) && !/^(?:blob|data|about):/.test(url))
        strays.push(url);
    });
    await page.exposeFunction("onAppRequest", (method: string, params: unknown) => {
      requests.push({ method, params });
      return refuses?.({ method, params }) !== true;
    });
    await page.goto(windows.origin);
    const { tools } = await client.listTools();

    async function show(name: string, result?: CallToolResult): Promise<void> {
      const meta = tools.find((tool) => tool.name === name)!._meta!["ui"];
      const { resourceUri: uri } = meta as { resourceUri: string };
      const [content] = (await client.readResource({ uri })).contents;
      const { ui } = content!._meta as { ui: { csp: object } };
      const all = { message: {}, openLinks: {}, downloadFile: {} };
      const offered = Object.entries(all).filter(([each]) => !without.some((no) => no === each));
      const shown: ShownApp = {
        sandboxUrl: sandboxUrl + sandbox,
        html: (content as { text: string }).text,
        csp: ui.csp,
        context: { ...(theme && { theme }), displayMode: "inline" },
        capabilities: Object.fromEntries(offered),
        result,
      };
      await run("showApp", shown);
    }

    const run = (name: string, given: unknown): Promise<unknown> =>
      page.evaluate(
        ([each, value]) => (Reflect.get(globalThis, each) as (value: unknown) => unknown)(value),
        [name, given] as const,
      );

    const call = (name: string, args = {}): Promise<CallToolResult> =>
      client.callTool({ name, arguments: args });
    const frame = (): Frame => page.frames().find((each) => each.parentFrame()?.parentFrame())!;
    return {
      page,
      app: page.frameLocator("iframe").frameLocator("iframe"),
      frame,
      requests,
      complaints,
      strays,
      call,
      show,
      send: async (result) => void (await run("sendResult", result)),
      setTheme: async (next) => void (await run("setTheme", next)),
      post: async (message) => void (await run("postToApp", message)),
      async open(name, args) {
        const result = await call(name, args);
        await show(name, result);
        return result;
      },
    };
  }

  return {
    open,
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.close()));
      await windows.close();
      await sandboxes.close();
    },
  };
}

const withApps = {
  extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } },
};

/** As the basic host lets in what a resource declares. */
function policyOf({
  connectDomains = [],
}: {
  readonly connectDomains?: readonly string[];
}): string {
  return [
    "default-src 'self' 'unsafe-inline'",
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:",
    "style-src 'self' 'unsafe-inline' blob: data:",
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    `connect-src 'self' ${connectDomains.join(" ")}`,
    "frame-src 'none'",
    "object-src 'none'",
    "base-uri 'none'",
  ].join("; ");
}

/** Passes messages between the window and an inner frame, which it writes the App into. */
function sandboxPage(isOpaque: boolean): string {
  return `<!doctype html><html><body style="margin: 0"><script>
    const inner = document.createElement("iframe");
    inner.style.cssText = "width: 100%; height: 100vh; border: 0";
    inner.title = "App";
    inner.setAttribute("sandbox", "allow-scripts allow-forms${isOpaque ? "" : " allow-same-origin"}");
    document.body.append(inner);
    addEventListener("message", ({ source, data }) => {
      if (source === inner.contentWindow) parent.postMessage(data, "*");
      else if (source !== parent) return;
      else if (data?.method !== "ui/notifications/sandbox-resource-ready")
        inner.contentWindow.postMessage(data, "*");
      else if (${isOpaque}) inner.srcdoc = data.params.html;
      else {
        inner.contentDocument.open();
        inner.contentDocument.write(data.params.html);
        inner.contentDocument.close();
      }
    });
    parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, "*");
  </script></body></html>`;
}
