import { request as send, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { ContainerClient, type StoragePipelineOptions } from "@azure/storage-blob";
import type { ScriptedService } from "./scripted-service.ts";

type HttpClient = NonNullable<StoragePipelineOptions["httpClient"]>;
type Request = Parameters<HttpClient["sendRequest"]>[0];
type Answer = Awaited<ReturnType<HttpClient["sendRequest"]>>;

/**
 * A client with a token credential. The SDK sends tokens over HTTPS alone, so its transport takes
 * what goes to the account to the scripted service instead, without bodies that stream.
 */
export function createTokenClient(service: ScriptedService): ContainerClient {
  const httpClient: HttpClient = {
    async sendRequest(request): Promise<Answer> {
      const response = await exchange(service, request);
      const headers = request.headers.clone();
      for (const name of headers.headerNames()) headers.remove(name);
      for (const [name, value] of Object.entries(response.headers))
        headers.set(name, String(value));
      return {
        request,
        status: response.statusCode ?? 0,
        headers,
        bodyAsText: await text(response),
      };
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

function exchange(service: ScriptedService, request: Request): Promise<IncomingMessage> {
  const { method, url, body, abortSignal } = request;
  const target = new URL(url);
  return new Promise((resolve, reject) => {
    const headers = request.headers.rawHeaders();
    const signal = abortSignal instanceof AbortSignal ? abortSignal : undefined;
    send(`${service.url}${target.pathname}${target.search}`, {
      method,
      headers,
      agent: false,
      ...(signal && { signal }),
    })
      .once("response", resolve)
      .once("error", reject)
      .end(typeof body === "string" ? body : undefined);
  });
}
