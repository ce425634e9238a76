import type { ServerResponse } from "node:http";
import type { Route } from "../endpoint/router.ts";
import { endBody } from "./node-body.ts";
import type { NodeRequest } from "./node-request.ts";

/**
 * Verifies the access token of a request: puts what it found on `req.auth` and calls `next`, or answers by itself; then
 * `next` does nothing any more. What it throws or gives to `next` is a fault, and 500 to the client.
 */
// bivariant, so that middleware of Express fits, which gets its own request and response there
export type Authenticate = Middleware["verify"];

interface Middleware {
  verify(
    req: NodeRequest,
    res: ServerResponse,
    next: (error?: unknown) => void,
    route: Route,
  ): unknown;
}

/** True when the middleware lets the request go on; false when it has answered. Its answers are readable for allowed pages, too. */
export async function authenticateFirst(
  authenticate: Authenticate,
  request: {
    readonly req: NodeRequest;
    readonly res: ServerResponse;
    readonly route: Route;
    readonly cors: readonly string[];
  },
): Promise<boolean> {
  const { req, res, route, cors } = request;
  for (let at = 0; at < cors.length; at += 2) res.setHeader(cors[at]!, cors[at + 1]!);
  return new Promise<boolean>((resolve, reject) => {
    const onClose = (): void => resolve(false);
    // of an answer by the hook: Node would take the rest of a refused body for as long as it comes
    const onFinish = (): void => void endBody(req);
    const settle = (): void => void res.off("close", onClose);
    res.once("close", onClose).once("finish", onFinish);
    const next = (error?: unknown): void => {
      settle();
      if (!res.headersSent) res.off("finish", onFinish);
      // what it has answered is answered, whatever it says behind that
      if (error === undefined || error === null) resolve(!res.headersSent);
      else reject(error);
    };
    // async middleware may reject
    Promise.resolve(authenticate(req, res, next, route)).catch((error: unknown) => {
      settle();
      reject(error);
    });
  });
}
