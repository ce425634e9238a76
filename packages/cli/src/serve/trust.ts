import { ensureTrustedOrigins } from "@sluice/client";
import { Advice } from "../server-calls/failure.ts";

/** Throws for a `--trust` that is no origin, before anything is sent. */
export function ensureTrust(trust: readonly string[] = []): void {
  try {
    ensureTrustedOrigins(trust);
  } catch (error) {
    const advice = "write it like --trust https://cdn.example.com, or https://*.example.com";
    throw new Advice(error, advice);
  }
}
