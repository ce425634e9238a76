import { SluiceError } from "@sluice/core";
import type { Overrides, PresignedUrl, PresignOptions } from "@sluice/storage";
import { sign } from "../reference-service.ts";
import type { Mutants } from "./mutant.ts";

/** Gives another URL than the right one, or asks for another one. */
function presigns(
  change: (presigned: PresignedUrl, key: string) => PresignedUrl,
  ask: (options: PresignOptions) => PresignOptions = (options) => options,
): Overrides {
  return {
    presign: (presign) => async (key, options) => {
      const presigned = await presign(key, ask(options));
      return presigned && change(presigned, key);
    },
  };
}

/** Signs again, with other fields. */
function resigned(
  key: string,
  { url, expiresAt }: PresignedUrl,
  fields: Record<string, string>,
): PresignedUrl {
  const { signature: _, ...signed } = Object.fromEntries(new URL(url).searchParams);
  return { url: sign(key, { ...signed, ...fields }), expiresAt };
}

export const presignMutants: Mutants = {
  "presign-get": {
    flaw: "forgets to sign short keys",
    breaks: () =>
      presigns(({ url, expiresAt }, key) => ({
        url: key === "get.bin" ? url.replace(/&signature=.*/, "") : url,
        expiresAt,
      })),
  },
  "presign-range": {
    flaw: "signs the range header too",
    breaks: () =>
      presigns((presigned, key) => resigned(key, presigned, { "signed-headers": "range" })),
  },
  "presign-expiry": {
    flaw: "tells an hour more than the URL lives",
    breaks: () =>
      presigns(({ url, expiresAt }) => ({
        url,
        expiresAt: expiresAt + 3_600_000,
      })),
  },
  "presign-expired": {
    flaw: "signs for a year and tells the time that was asked for",
    breaks: () =>
      presigns((presigned, key) =>
        resigned(key, presigned, { expires: String(Date.now() + 3e10) }),
      ),
  },
  "presign-overrides": {
    flaw: "forgets the disposition",
    breaks: () =>
      presigns(
        (presigned) => presigned,
        ({ contentDisposition: _forgotten, ...options }) => options,
      ),
  },
  "presign-bound": {
    flaw: "signs for every key",
    breaks: () => presigns((presigned, key) => resigned(key, presigned, { key: "*" })),
  },
  "presign-origins": {
    flaw: "names the origin of another service",
    breaks: () => ({ presignOrigins: () => async () => ["https://other.invalid"] }),
  },
  "presign-missing": {
    flaw: "fails when there is no object",
    breaks: () => ({
      presign: (presign) => (key, options) =>
        presign(key, options).catch((error: SluiceError) => {
          throw new SluiceError("internal", "memory: presign: HEAD failed", { cause: error });
        }),
    }),
  },
  "presign-opaque": {
    flaw: "writes URLs that parsers rewrite",
    breaks: () =>
      presigns(({ url, expiresAt }) => ({ url: url.replace("storage", "STORAGE"), expiresAt })),
  },
};
