/** @ts-ignore: in our declarations, users of SDK version 1 lack this package */
import type { Client, ClientContext, JSONRPCRequest, Result } from "@modelcontextprotocol/client";
import { ELICIT_METHOD, type BinaryElicitation } from "@sluice/core/internal";
import { isObject, schemaOf } from "../../calls/shape.ts";
import type { ElicitAnswer, Notify } from "./answer-request.ts";

/** Answers the params of an `elicitation/create` of mode `binary`. */
export type AnswerElicitation = (
  params: unknown,
  context: { readonly signal: AbortSignal; readonly notify: Notify },
) => Promise<ElicitAnswer>;

/**
 * The SDK's client (version 2), with requests for files answered in both protocol revisions. Its checks reject mode
 * `binary`, so such requests bypass them, through its hook for subclasses; everything else is handled as before.
 */
export function extendClient(
  Base: typeof Client,
  binary: BinaryElicitation,
  answer: AnswerElicitation,
): typeof Client {
  // a hook that only version 2 has, whatever is passed
  if (!("_wrapHandler" in Object(Base?.prototype)))
    throw new TypeError(
      "client: extend takes the Client class of SDK version 2; with version 1 call sender.attach(client) before connect",
    );
  return class FileClient extends Base {
    constructor(...args: ConstructorParameters<typeof Client>) {
      super(...args);
      // a mode that the SDK's types do not have yet, and that it passes on
      const capabilities: object = { elicitation: { binary } };
      this.registerCapabilities(capabilities);
      // with schemas of its own, or the SDK holds the params to those of its revision before anything else
      this.setRequestHandler(ELICIT_METHOD, { params: schemaOf(isObject) }, refuseMode);
    }

    // oxlint-disable-next-line no-underscore-dangle -- the SDK's name for the hook
    protected override _wrapHandler(method: string, handler: AnswerHandler): AnswerHandler {
      // oxlint-disable-next-line no-underscore-dangle -- as above
      const wrapped = super._wrapHandler(method, handler);
      if (method !== ELICIT_METHOD) return wrapped;
      return async (request, ctx) => {
        const { params } = request;
        if (!isBinary(params)) return wrapped(request, ctx);
        const { signal, notify } = ctx.mcpReq;
        return answer(params, { signal, notify: (notification) => notify(notification) });
      };
    }
  };
}

type AnswerHandler = (request: JSONRPCRequest, ctx: ClientContext) => Promise<Result>;

/** The part of the SDK's client, version 1, that is needed. */
export interface FallbackClient {
  // the request and what comes with it have types of the SDK's own
  // oxlint-disable-next-line typescript/no-explicit-any
  fallbackRequestHandler?: ((request: any, extra: any) => Promise<any>) | undefined;
  registerCapabilities(capabilities: object): void;
}

/** Answers requests for files to a client of version 1; others go to its previous fallback. */
export function attachFallback(
  client: FallbackClient,
  binary: BinaryElicitation,
  answer: AnswerElicitation,
): void {
  const before = client.fallbackRequestHandler;
  client.registerCapabilities({ elicitation: { binary } });
  client.fallbackRequestHandler = async (request: LegacyRequest, extra: LegacyExtra) => {
    const { method, params } = request;
    if (method === ELICIT_METHOD && isBinary(params))
      return answer(params, { signal: extra.signal, notify: extra.sendNotification });
    if (before) return before(request, extra);
    if (method === ELICIT_METHOD) return refuseMode();
    throw Object.assign(new Error("Method not found"), { code: -32601 });
  };
}

interface LegacyRequest {
  readonly method: string;
  readonly params?: unknown;
}

interface LegacyExtra {
  readonly signal: AbortSignal;
  readonly sendNotification: Notify;
}

function isBinary(params: unknown): boolean {
  return (params as { mode?: unknown } | undefined)?.mode === "binary";
}

/** SDKs send the `code` of any thrown error. */
function refuseMode(): never {
  throw Object.assign(new Error("This client answers requests for files only"), { code: -32602 });
}
