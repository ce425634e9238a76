import { createTextSealer, principalTag, SluiceError, type Principal } from "@sluice/core";
import { FILE_URI_SCHEME } from "@sluice/core/wire";
import type { Host } from "@sluice/server/transport";

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

/** Makes and reads file URIs: `mcp-file://<host>/<sealed>`. */
export interface FileUris {
  format(handle: FileHandle, principal: Principal | undefined): string;
  /** Throws `invalid_argument` for what is not ours, altered or another principal's, `expired` after its time. */
  parse(uri: string, principal: Principal | undefined): FileHandle;
}

/**
 * Makes the file URIs of one server. All that they stand for is in them under a seal, for one principal: nothing is
 * stored, and a URI tells nothing (SEP-2631 §4: a scheme that no resource has; §8: revocable, scoped).
 */
export function createFileUris(host: Host): FileUris {
  const sealer = createTextSealer({ keys: host.keys, purpose: "file" });
  const base = `${FILE_URI_SCHEME}//${new URL(host.endpoint.url).host}/`;

  function contextOf(principal: Principal | undefined): string[] {
    return [host.endpoint.url, principal ? principalTag(principal) : "anybody"];
  }

  return {
    format(handle, principal) {
      return base + sealer.seal(JSON.stringify(handle), contextOf(principal));
    },
    parse(uri, principal) {
      if (!uri.startsWith(base))
        throw new SluiceError("invalid_argument", "files: the URI is of another server");
      const sealed = sealer.unseal(uri.slice(base.length), contextOf(principal));
      // what is in the seal was made by format
      const handle = JSON.parse(sealed) as FileHandle;
      if (Date.now() >= handle.expiresAt)
        throw new SluiceError("expired", "files: the time of this file is over");
      return handle;
    },
  };
}
