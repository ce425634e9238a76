import { html, pageReply, type Reply } from "@sluice/server/internal";

/** A request as far as it says what its sender takes. */
interface AcceptingRequest {
  readonly method: string;
  readonly header: (name: string) => string | undefined;
}

/** Whether a person opened the address in a browser. Clients of MCP take `text/event-stream`, and get what they ask for. */
export function isVisit({ method, header }: AcceptingRequest): boolean {
  const accept = header("accept") ?? "";
  const wantsPage = /(?:^|,)\s*text\/html\s*(?:[;,]|$)/i.test(accept);
  return (
    (method === "GET" || method === "HEAD") && wantsPage && !/text\/event-stream/i.test(accept)
  );
}

/** Says in a browser what the address of an endpoint is for. */
export function endpointPage(endpoint: string): Reply {
  const { text } = html`<!doctype html>
    <html lang="en">
      <meta charset="utf-8" />
      <title>MCP endpoint</title>
      <p>
        This address is for MCP clients, not for browsers. Add it to your client:
        <code>${endpoint}</code>
      </p>
    </html> `;
  const reply = pageReply(text, policy);
  return { ...reply, headers: [...reply.headers, "Vary", "Accept"] };
}

/** It has neither scripts nor styles. */
const policy = "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";
