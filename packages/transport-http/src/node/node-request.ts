import type { IncomingMessage } from "node:http";
import type { AuthInfo } from "@modelcontextprotocol/server";

/** What middleware in front may have put on a request. */
export type NodeRequest = IncomingMessage & {
  /** Access token it verified. */
  auth?: AuthInfo;
  /** Body it parsed. */
  body?: unknown;
  /** URL before a mount path was taken off. */
  originalUrl?: string;
};
