import { expect, test } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";

const url = "http://other.example/mcp";
const secret = "hush-hush";
const token = ["--token", secret];
const header = ["--header", `X-Api-Key: ${secret}`];
const forServer = ["--server-token", secret];
const bridge = ["bridge", url];
const forHosts = [...bridge, "--http", "--port", "0"];

test.each<[string, string, readonly string[], Record<string, string>?]>([
  ["ls", "--token", ["ls", url, ...token]],
  ["get", "--token", ["get", url, "files://local/a", ...token]],
  ["put", "--token", ["put", url, "package.json", ...token]],
  ["ls", "SLUICE_TOKEN", ["ls", url], { SLUICE_TOKEN: secret }],
  ["doctor", "--token", ["doctor", url, ...token]],
  ["doctor", "--header", ["doctor", url, ...header]],
  ["bridge", "--token", [...bridge, ...token]],
  ["bridge", "--server-token", [...bridge, ...forServer]],
  ["bridge", "--header", [...bridge, ...header]],
  ["bridge", "SLUICE_TOKEN", bridge, { SLUICE_TOKEN: secret }],
  ["bridge --http", "--server-token", [...forHosts, ...forServer]],
  ["bridge --http", "--header", [...forHosts, ...header]],
])(
  "%s with %s refuses to go to another machine in the clear, at once",
  async (_, _way, args, env) => {
    const { status, stdout, stderr } = await runHere(args, env && { env });
    expect(status).toBe(exitCodes.refused.status);
    expect(stdout).toBe("");
    expect(stderr).toBe(
      "sluice: credentials would travel to other.example in the clear; use the server's https: address\n",
    );
  },
);
