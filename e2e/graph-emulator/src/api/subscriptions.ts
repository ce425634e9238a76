import { request as httpRequest } from "node:http";
import { errorBody } from "../hosts/hosts.ts";

const handshakeMs = 10_000;
const longestMs = 42_300 * 60_000;

interface Subscription {
  readonly id: string;
  readonly notificationUrl: string;
  readonly clientState: string | undefined;
  readonly resource: string;
  expirationDateTime: string;
}

/** Subscriptions to changes of drives. */
export interface EmulatedSubscriptions {
  /** Answers `/subscriptions` and what is below it. */
  handle(
    method: string,
    path: string,
    body: Record<string, unknown>,
  ): Promise<{ readonly status: number; readonly body?: object }>;
  /** Tells every subscriber of a drive that there is something new; never what. */
  notify(driveId: string): void;
  /** Resolves when all notifications so far were answered or refused. */
  settle(): Promise<void>;
}

/** Creates the list of subscriptions. A receiver must first echo a token, as plain text and decoded. */
export function createSubscriptions(now: () => number): EmulatedSubscriptions {
  const all = new Map<string, Subscription>();
  const underWay = new Set<Promise<unknown>>();
  let made = 0;
  const isTooLate = (date: unknown): boolean => !(Date.parse(String(date)) <= now() + longestMs);

  const shake = async (notificationUrl: string): Promise<boolean> => {
    const token = `Validation: Testing client application ${++made} <b>+&`;
    const url = `${notificationUrl}${notificationUrl.includes("?") ? "&" : "?"}validationToken=${encodeURIComponent(token).replaceAll("%20", "+")}`;
    const answer = await post(url, "").catch(() => undefined);
    return answer?.status === 200 && answer.type.startsWith("text/plain") && answer.text === token;
  };

  return {
    async handle(method, path, body) {
      const id = path.slice("/subscriptions/".length);
      if (method === "POST" && id === "") {
        const { notificationUrl, clientState, resource, expirationDateTime } = body;
        const isRefused =
          body["changeType"] !== "updated" ||
          isTooLate(expirationDateTime) ||
          !(await shake(String(notificationUrl)));
        if (isRefused) return { status: 400, body: errorBody("InvalidRequest") };
        const subscription: Subscription = {
          id: crypto.randomUUID(),
          notificationUrl: String(notificationUrl),
          resource: String(resource),
          expirationDateTime: String(expirationDateTime),
          clientState: typeof clientState === "string" ? clientState : undefined,
        };
        all.set(subscription.id, subscription);
        return { status: 201, body: subscription };
      }
      const known = all.get(id);
      if (known === undefined) return { status: 404, body: errorBody("ResourceNotFound") };
      if (method === "DELETE") {
        all.delete(id);
        return { status: 204 };
      }
      if (method !== "PATCH" || isTooLate(body["expirationDateTime"]))
        return { status: 400, body: errorBody("InvalidRequest") };
      known.expirationDateTime = String(body["expirationDateTime"]);
      return { status: 200, body: known };
    },
    notify(driveId) {
      for (const one of all.values()) {
        if (!one.resource.replace(/^\//, "").startsWith(`drives/${driveId}/root`)) continue;
        if (Date.parse(one.expirationDateTime) <= now()) continue;
        const { id: subscriptionId, clientState, resource } = one;
        const value = [{ subscriptionId, clientState, resource, changeType: "updated" }];
        const sending = post(one.notificationUrl, JSON.stringify({ value })).catch(() => {});
        underWay.add(sending);
        void sending.then(() => underWay.delete(sending));
      }
    },
    async settle() {
      await Promise.all(underWay);
    },
  };
}

function post(url: string, body: string): Promise<{ status: number; type: string; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, {
      method: "POST",
      agent: false,
      timeout: handshakeMs,
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    sent.on("error", reject);
    sent.on("timeout", () => sent.destroy(new Error("the receiver did not answer in time")));
    sent.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers["content-type"] ?? "",
          text: Buffer.concat(parts).toString(),
        }),
      );
    });
    sent.end(body);
  });
}
