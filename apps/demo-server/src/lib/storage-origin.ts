import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { StorageBackend } from "@sluice/storage";
import express from "express";

/** Stands in for an object store: serves a folder on an origin of its own to whoever has a signed URL. */
export interface StorageOrigin {
  /** `http://127.0.0.1:<port>` */
  readonly origin: string;
  close(): void;
}

/** Starts the store on a free port. `secret` is what its URLs are signed with. */
export async function createStorageOrigin(root: string, secret: string): Promise<StorageOrigin> {
  const app = express();
  app.use((request, response, next) => {
    const { searchParams, pathname } = new URL(request.url, "http://storage");
    const expires = searchParams.get("expires") ?? "";
    const given = Buffer.from(searchParams.get("signature") ?? "");
    const right = Buffer.from(sign(secret, pathname, expires));
    const isSigned = given.length === right.length && timingSafeEqual(given, right);
    if (isSigned && Date.now() < Number(expires)) next();
    else response.sendStatus(403);
  });
  app.use(express.static(root));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** `backend` with URLs to a storage origin over the same folder, as the S3 and Azure backends sign them. */
export function withSignedUrls(
  backend: StorageBackend,
  origin: string,
  secret: string,
): StorageBackend {
  return {
    ...backend,
    async presign(key, { expiresInMs }) {
      const expiresAt = new Date(Date.now() + expiresInMs);
      const pathname = `/${key.split("/").map(encodeURIComponent).join("/")}`;
      const url = new URL(pathname, origin);
      url.searchParams.set("expires", String(expiresAt.getTime()));
      url.searchParams.set("signature", sign(secret, pathname, String(expiresAt.getTime())));
      return { url: url.href, expiresAt };
    },
  };
}

function sign(secret: string, pathname: string, expires: string): string {
  return createHmac("sha256", secret).update(`${pathname}\n${expires}`).digest("base64url");
}
