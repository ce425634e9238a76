import { applyTheme } from "./app-theme.ts";

// the App's side of MCP Apps (SEP-1865, revision 2026-01-26)
const revision = "2026-01-26";
const answerMs = 30_000;
/** A host may ask its user first. */
const userMs = 10 * 60_000;

/** A result of a tool, as far as Apps read it. Nothing of it is checked. */
export interface ToolResult {
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** What an App does when its host tells it something. */
interface AppHandlers {
  readonly onResult: (result: ToolResult) => void;
  /** The call of the tool was cancelled. */
  readonly onCancelled: () => void;
}

interface Message {
  readonly jsonrpc?: unknown;
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: unknown;
  readonly result?: unknown;
}

/** The host of this App: the window around it. Messages of other windows are not read. */
export class AppHost {
  readonly #handlers: AppHandlers;
  readonly #waiting = new Map<unknown, (answer: Message) => void>();
  #lastId = 0;
  #capabilities: Readonly<Record<string, unknown>> = {};

  constructor(handlers: AppHandlers) {
    this.#handlers = handlers;
    addEventListener("message", ({ source, data }) => {
      if (source === parent && membersOf(data)["jsonrpc"] === "2.0") this.#receive(membersOf(data));
    });
  }

  /** Greets the host, takes on its look, and tells it of every change of the height. */
  async connect(name: string): Promise<void> {
    const answer = await this.#request("ui/initialize", {
      appInfo: { name, version: "1.0.0" },
      appCapabilities: { availableDisplayModes: ["inline"] },
      protocolVersion: revision,
    });
    this.#capabilities = membersOf(answer["hostCapabilities"]);
    applyTheme(membersOf(answer["hostContext"]));
    this.#send({ method: "ui/notifications/initialized", params: {} });
    new ResizeObserver(() => {
      const height = Math.ceil(document.body.getBoundingClientRect().height);
      this.#send({ method: "ui/notifications/size-changed", params: { height } });
    }).observe(document.body);
  }

  /** Writes to the model in the user's name; false if the host does not. */
  tellModel(text: string): Promise<boolean> {
    return this.#ask("message", "ui/message", { role: "user", content: [{ type: "text", text }] });
  }

  /** Opens a link in a browser; false if the host does not. */
  openLink(url: string): Promise<boolean> {
    return this.#ask("openLinks", "ui/open-link", { url });
  }

  /** Whether the host declares a capability. */
  can(capability: string): boolean {
    return this.#capabilities[capability] !== undefined;
  }

  async #ask(capability: string, method: string, params: object): Promise<boolean> {
    if (!this.can(capability)) return false;
    try {
      return (await this.#request(method, params, userMs))["isError"] !== true;
    } catch {
      return false;
    }
  }

  #request(method: string, params: object, timeoutMs = answerMs): Promise<Record<string, unknown>> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(id);
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error("The host does not answer."));
      }, timeoutMs);
      this.#waiting.set(id, ({ result }) => {
        end();
        if (result === undefined) reject(new Error("The host refuses."));
        else resolve(membersOf(result));
      });
      this.#send({ id, method, params });
    });
  }

  #receive({ id, method, params, ...answer }: Message): void {
    if (method === undefined) return this.#waiting.get(id)?.({ id, ...answer });
    if (id !== undefined) return this.#answer(id, method);
    if (method === "ui/notifications/tool-result") this.#handlers.onResult(membersOf(params));
    if (method === "ui/notifications/tool-cancelled") this.#handlers.onCancelled();
    if (method === "ui/notifications/host-context-changed") applyTheme(membersOf(params));
  }

  #answer(id: unknown, method: unknown): void {
    const isKnown = method === "ping" || method === "ui/resource-teardown";
    const error = { code: -32601, message: "Method not found" };
    this.#send({ id, ...(isKnown ? { result: {} } : { error }) });
  }

  #send(message: object): void {
    // no App is told the origin of its host
    parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }
}

/** The members of what should be an object; none for anything else. */
export function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
