import { ClientSession, createSessionSender } from "@sluice/client/internal";
import type { FallbackClient, FileSender } from "@sluice/client/send";
import type { FetchLike } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import { loopbackOf } from "../../confine/named-loopback.ts";
import type { SendableFile } from "../../confine/send-folders.ts";
import { membersOf, type Members } from "../../messages/messages.ts";
import { placeholder } from "../server-client.ts";
import type { ToolContext } from "../tool-context.ts";

/** Answers a server that asks for files (SEP-1306) in place of a host that cannot. */
export class FileAnswers {
  readonly #context: ToolContext;
  /** Its credentials go to the server's own origin. A process has none. */
  readonly #session: ClientSession | undefined;

  constructor(context: ToolContext) {
    this.#context = context;
    this.#session = context.server.url && new ClientSession(context.server.url);
  }

  /** Sender for files to an address that the server named. `file` is what requests for files are answered with. */
  senderTo(address: unknown, file?: SendableFile): FileSender<SendableFile> {
    const session = this.#session ?? new ClientSession(loopbackOf(address) ?? placeholder);
    const { trustedOrigins, maxStepBytes } = this.#context;
    return createSessionSender(session, {
      trustedOrigins,
      ...definedMembers({ maxStepBytes }),
      maxFileBytes: Number.MAX_SAFE_INTEGER,
      onFilesRequested({ fields, requiredValues }) {
        const [field] = fields;
        const isMore = fields.filter(({ required }) => required).length > 1;
        if (!field || !file || isMore || requiredValues.length > 0) return { action: "decline" };
        return { action: "accept", files: { [field.name]: [file] } };
      },
    });
  }

  /** The answer to params of `elicitation/create` of mode `binary`. Rejects if the file cannot be sent. */
  async give(params: unknown, file: SendableFile, signal: AbortSignal): Promise<Members> {
    const client: FallbackClient = { registerCapabilities() {} };
    this.senderTo(firstAddress(params), file).attach(client);
    const extra = { signal, sendNotification: async () => {} };
    const answer: unknown = await client.fallbackRequestHandler?.(
      { method: "elicitation/create", params },
      extra,
    );
    return membersOf(answer);
  }

  /** Watches the connection. */
  watch(fetch: FetchLike): FetchLike {
    return this.#session?.watch(fetch) ?? fetch;
  }
}

/** True for a request for files. */
export function asksForFiles(method: unknown, params: unknown): boolean {
  return method === "elicitation/create" && membersOf(params)["mode"] === "binary";
}

function firstAddress(params: unknown): unknown {
  const [endpoint] = Object.values(membersOf(membersOf(params)["uploadEndpoints"]));
  return membersOf(endpoint)["url"];
}
