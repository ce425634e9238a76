import { ContainerClient, type StoragePipelineOptions } from "@azure/storage-blob";
import type { ScriptedService } from "./scripted-service.ts";

type HttpClient = NonNullable<StoragePipelineOptions["httpClient"]>;
type Answer = Awaited<ReturnType<HttpClient["sendRequest"]>>;

/**
 * A client with a token credential. The SDK sends tokens over HTTPS alone, so its transport takes
 * what goes to the account to the scripted service instead, without bodies that stream.
 */
export function createTokenClient(service: ScriptedService): ContainerClient {
  const httpClient: HttpClient = {
    async sendRequest(request): Promise<Answer> {
      const { method, url, body, abortSignal } = request;
      const target = new URL(url);
      const response = await fetch(`${service.url}${target.pathname}${target.search}`, {
        method,
        headers: request.headers.rawHeaders(),
        ...(typeof body === "string" && { body }),
        ...(abortSignal instanceof AbortSignal && { signal: abortSignal }),
      });
      const headers = request.headers.clone();
      for (const name of headers.headerNames()) headers.remove(name);
      for (const [name, value] of response.headers) headers.set(name, value);
      return { request, status: response.status, headers, bodyAsText: await response.text() };
    },
  };
  let issued = 0;
  return new ContainerClient(
    "https://account.blob.core.windows.net/docs",
    {
      getToken: async () => ({
        token: `token ${++issued}`,
        expiresOnTimestamp: Date.now() + 3_600_000,
      }),
    },
    { httpClient },
  );
}
