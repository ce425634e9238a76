import type { GraphEmulator } from "@sluice/graph-emulator";

/** Calls the API as a client that does everything right. */
export async function call(
  emulator: GraphEmulator,
  path: string,
  init: RequestInit & { readonly version?: string } = {},
): Promise<{ status: number; headers: Headers; body: any }> {
  const { token } = await emulator.credential.getToken();
  const answer = await fetch(`${emulator.origins.graph}/${init.version ?? "v1.0"}${path}`, {
    redirect: "manual",
    ...init,
    headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) },
  });
  const text = await answer.text();
  const isJson = answer.headers.get("content-type")?.includes("json") ?? false;
  return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
}

/** The path of an item of the first drive. */
export function at(path: string): string {
  return `/drives/b!emulated/root:/${path}`;
}
