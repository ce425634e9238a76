/**
 * What the other packages of Sluice build on in Node.js. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { createClientAddress, socketAddress } from "./access/client-address.ts";
export { formatHead, parseHead } from "./audit/audit-chain.ts";
export { parseKeyFile } from "./urls/key-file.ts";
