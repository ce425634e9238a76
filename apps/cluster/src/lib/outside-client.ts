import type { Client } from "@modelcontextprotocol/client";
import { connect as connectStreaming } from "@sluice/client/connect";

/** Where a client goes, and with which token. */
export interface Address {
  readonly endpoint: string;
  readonly token: string;
}

/** Connects an ordinary client: it knows one address, and nothing of the processes behind it. */
export function connect({ endpoint, token }: Address): Promise<Client> {
  return connectStreaming(endpoint, { token, name: "cluster" });
}

/** The address of a process itself, for the same path: past nginx. */
export function pastNginx(url: string, port: number): string {
  const direct = new URL(url);
  direct.port = String(port);
  return direct.href;
}

/** Calls a tool that answers with a text. */
export async function callTool(client: Client, name: string, args: object): Promise<string> {
  const { content } = await client.callTool({ name, arguments: { ...args } });
  const [first] = content;
  if (first?.type !== "text") throw new Error(`${name} gave no text`);
  return first.text;
}
