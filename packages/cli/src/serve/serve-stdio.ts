import { once } from "node:events";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { note, outliveReader } from "../terminal/print.ts";
import { printable } from "../terminal/printable.ts";

/** Serves one client over stdin and stdout, in either protocol revision, until it closes stdin or `signal` aborts. */
export async function serveClient(factory: McpServerFactory, signal: AbortSignal): Promise<void> {
  outliveReader();
  const gone = new AbortController();
  const served = serveStdio(factory, {
    transport: new EndingTransport(() => gone.abort()),
    onerror: (error) => note(`sluice: ${printable(error.message)}`),
  });
  try {
    const over = AbortSignal.any([gone.signal, signal]);
    if (!over.aborted) await once(over, "abort");
  } finally {
    await served.close();
  }
}

/** Tells when it is closed, also by the end of stdin. */
class EndingTransport extends StdioServerTransport {
  readonly #onEnd: () => void;

  constructor(onEnd: () => void) {
    super();
    this.#onEnd = onEnd;
  }

  override async close(): Promise<void> {
    await super.close();
    this.#onEnd();
  }
}
