import { principalTag, SluiceError, type Principal } from "@sluice/core";
import { createTextSealer, FILE_URI_SCHEME } from "@sluice/core/internal";
import type { Host } from "@sluice/server/internal";
import { createSealedRecords } from "@sluice/state/internal";
import { isId, newId } from "../slots/slots.ts";

/** What a file URI stands for. */
export type FileHandle =
  /** One that is or will be uploaded, and what was declared of it. */
  | {
      readonly kind: "upload";
      readonly uploadId: string;
      readonly name?: string | undefined;
      readonly size?: number | undefined;
      readonly mimeType?: string | undefined;
      /** Lower-case hex. */
      readonly sha256?: string | undefined;
      /** Unix milliseconds. */
      readonly expiresAt: number;
    }
  /** One that the server has: one version of a resource. */
  | {
      readonly kind: "resource";
      readonly key: string;
      readonly etag?: string | undefined;
      readonly sha256: string;
      readonly expiresAt: number;
    };

interface FileHolder {
  readonly principal: Principal | undefined;
  /** In whose share of the state store it counts, as `Identity` says. */
  readonly share: string | undefined;
}

/** Makes and reads file URIs: `mcp-file://<host>/` and 32 characters where tokens are stored, else all of it sealed. */
export interface FileUris {
  /** Rejects with errors of the store. */
  format(handle: FileHandle, holder: FileHolder): Promise<string>;
  /** Rejects with `invalid_argument` for one that is unknown, altered or another principal's, `expired` after its time. */
  parse(uri: string, principal: Principal | undefined): Promise<FileHandle>;
}

/**
 * Makes the file URIs of one server. All that they stand for is under a seal, for one principal, and a URI tells nothing
 * (SEP-2631 §4: a scheme that no resource has; §8: revocable, scoped).
 */
export function createFileUris({
  endpoint,
  keys,
  stores: { state },
  tokens,
}: Pick<Host, "endpoint" | "keys" | "stores" | "tokens">): FileUris {
  const sealer = createTextSealer({ keys, purpose: "file" });
  const records = createSealedRecords({ state, sealer, kind: "file-uri" });
  const base = `${FILE_URI_SCHEME}//${new URL(endpoint.url).host}/`;

  function contextOf(principal: Principal | undefined): string[] {
    return [endpoint.url, principal ? principalTag(principal) : "anybody"];
  }

  return {
    async format(handle, { principal, share = "" }) {
      const text = JSON.stringify(handle);
      const context = contextOf(principal);
      if (tokens === "sealed") return base + sealer.seal(text, context);
      const id = newId();
      const expiresAt = handle.expiresAt + keptMs;
      await records.keep(id, text, context, { now: Date.now(), expiresAt, owner: share });
      return base + id;
    },
    async parse(uri, principal) {
      if (!uri.startsWith(base))
        throw new SluiceError("invalid_argument", "files: the URI is of another server");
      const rest = uri.slice(base.length);
      const context = contextOf(principal);
      const text =
        tokens !== "sealed" && isId(rest)
          ? await records.find(rest, context, Date.now())
          : sealer.unseal(rest, context);
      // what is in the seal was made by format
      const handle = JSON.parse(text) as FileHandle;
      if (Date.now() >= handle.expiresAt)
        throw new SluiceError("expired", "files: this file has expired");
      return handle;
    },
  };
}

/** How long an expired URI is reported as expired, and not as unknown. */
const keptMs = 600_000;
