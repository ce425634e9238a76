/**
 * A bridge that hosts reach over Streamable HTTP.
 * @module
 */
export { createHttpHosts, type HttpHosts, type HttpHostsOptions } from "./hosts/http-hosts.ts";
export type { HostSession, OpenedServer, OpenServer } from "./hosts/host-session.ts";
