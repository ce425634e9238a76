import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import {
  beginOperation,
  callService,
  checkKey,
  type OperationOptions,
  type ServiceCall,
} from "@sluice/storage/plugin";
import { toSluiceError } from "./azure-error.ts";

/** A container and the part of it that is served. */
export interface BlobRoot {
  readonly container: ContainerClient;
  /** Empty, or what every blob name of this root starts with; it then ends in a slash. */
  readonly prefix: string;
  /** Absent for a client that was given with its own transport. */
  readonly connections?: { close(): void };
}

/** One call about one blob. */
export interface BlobCall {
  /** Start of messages: `azure-blob: open "a.txt"`. */
  readonly operation: string;
  readonly blob: BlockBlobClient;
}

/**
 * Begins a call (see `beginOperation`). Every key that is not a plain path is refused before the
 * SDK sees it: the SDK resolves dots as URLs do, and `../other/x` is a blob of another container.
 */
export function beginCall(
  { container, prefix }: BlobRoot,
  method: string,
  key: string,
  options: OperationOptions,
): BlobCall {
  const operation = beginOperation(`azure-blob: ${method}`, key, options);
  // the service drops such dots, so the key would name a different blob
  if (hasSegmentEndingInDot(key))
    throw new SluiceError(
      "invalid_argument",
      `${operation}: a segment ends with a dot, which Azure drops`,
    );
  return { operation, blob: container.getBlockBlobClient(prefix + key) };
}

/** The key of a blob, or `undefined` when it lies outside the root or its name is not a key. */
export function toKey({ prefix }: BlobRoot, name: string): string | undefined {
  if (!name.startsWith(prefix)) return undefined;
  const key = name.slice(prefix.length);
  return checkKey(key) === undefined && !hasSegmentEndingInDot(key) ? key : undefined;
}

/** True for a name with a dot that the service drops. */
export function hasSegmentEndingInDot(key: string): boolean {
  return key.endsWith(".") || key.includes("./");
}

/** One call of the SDK, with errors of Sluice (see {@link callService}). `send` hands its signal to the SDK. */
export function callAzure<T>(
  call: ServiceCall,
  send: (abortSignal: AbortSignal) => Promise<T>,
): Promise<T> {
  return callService(call, send, { toError: toSluiceError });
}
