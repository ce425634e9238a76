import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { createFileSender, type FallbackClient, type FileSender } from "@sluice/client/uploads";
import { SluiceError, type FetchLike } from "@sluice/core";
import type { SendFolders, SendableFile } from "../confine/send-folders.ts";
import { codes, membersOf, type Answer, type Members } from "../relay/messages.ts";
import { loopbackOf, placeholder } from "./server-client.ts";
import type { ToolContext } from "./tool-context.ts";

/** Answers a server that asks for files (SEP-1306) in place of a host that cannot. */
export interface FileAnswers {
  /** Sender for files to an address that the server named. `file` is what requests for files are answered with. */
  senderTo(address: unknown, file?: SendableFile): FileSender<SendableFile>;
  /** The answer to params of `elicitation/create` of mode `binary`. Rejects where the file cannot be sent. */
  give(params: unknown, file: SendableFile, signal: AbortSignal): Promise<Members>;
  /** The same for a request that came while no `send_file` was running: the user is asked for a path. */
  askUser(request: JSONRPCRequest): Promise<Answer>;
  /** Watches the connection, whose credentials go to the server's own origin. */
  watch(fetch: FetchLike): FetchLike;
}

/** Makes the answers of one bridge. */
export function createFileAnswers(context: ToolContext, folders: SendFolders): FileAnswers {
  const { server, trustedOrigins, questions } = context;
  let authorization: string | undefined;

  function senderTo(address: unknown, file?: SendableFile): FileSender<SendableFile> {
    return createFileSender({
      endpoint: server.url ?? loopbackOf(address) ?? placeholder,
      trustedOrigins,
      maxFileSize: Number.MAX_SAFE_INTEGER,
      authorization: () => authorization,
      onFilesRequested({ fields, requiredForm }) {
        const [field] = fields;
        const isMore = fields.filter(({ required }) => required).length > 1;
        if (!field || !file || isMore || requiredForm.length > 0) return { action: "decline" };
        return { action: "accept", files: { [field.name]: [file] } };
      },
    });
  }

  async function give(params: unknown, file: SendableFile, signal: AbortSignal): Promise<Members> {
    const client: FallbackClient = { registerCapabilities() {} };
    senderTo(firstAddress(params), file).attach(client);
    const extra = { signal, sendNotification: async () => {} };
    const answer: unknown = await client.fallbackRequestHandler?.(
      { method: "elicitation/create", params },
      extra,
    );
    return membersOf(answer);
  }

  async function askUser({ params }: JSONRPCRequest): Promise<Answer> {
    if (!questions.isPossible() || context.calls().hostRevision !== "legacy")
      return {
        error: {
          code: codes.invalidParams,
          message:
            "The host cannot pick files: have the model call the tool send_file with a path and this tool",
        },
      };
    const message = `${server.name} asks for a file: "${wordsOf(params)}". Which one below ${folders.roots.join(" or ")}?`;
    const schema = { type: "string", title: "Path", maxLength: 1_000 };
    const path = await questions.askFor({ message, field: "path", schema });
    if (typeof path !== "string" || path === "") return { result: { action: "decline" } };
    try {
      const file = await folders.find(path);
      return { result: await give(params, file, new AbortController().signal) };
    } catch (error) {
      // a server hears nothing of the disk
      const words = SluiceError.is(error) ? error.code : "internal";
      return { error: { code: codes.internal, message: `The file could not be sent (${words})` } };
    }
  }

  return {
    senderTo,
    give,
    askUser,
    watch: (fetch) => (input, init) => {
      if (new URL(input).href === server.url?.href)
        authorization = new Headers(init?.headers).get("authorization") ?? undefined;
      return fetch(input, init);
    },
  };
}

/** True for a request for files. */
export function asksForFiles(method: unknown, params: unknown): boolean {
  return method === "elicitation/create" && membersOf(params)["mode"] === "binary";
}

function firstAddress(params: unknown): unknown {
  const [endpoint] = Object.values(membersOf(membersOf(params)["uploadEndpoints"]));
  return membersOf(endpoint)["url"];
}

/** The server's words, in a line that cannot be taken for another. */
function wordsOf(params: unknown): string {
  const { message } = membersOf(params);
  return typeof message === "string"
    ? message.replace(/[^\p{L}\p{N}\p{P}\p{Zs}]/gu, " ").slice(0, 300)
    : "";
}
