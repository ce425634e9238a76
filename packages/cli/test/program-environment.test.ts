import { expect, test } from "vitest";
import { sluice } from "./sluice.ts";

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "host", version: "1" },
  },
};

/** Says which of these variables a program has, and reads its input to the end. */
const teller = `
const { SLUICE_TOKEN, SLUICE_SERVER_TOKEN, PLAIN } = process.env;
process.stderr.write(JSON.stringify({ SLUICE_TOKEN, SLUICE_SERVER_TOKEN, PLAIN }));
process.stdin.resume();`;

test.each(["SLUICE_TOKEN", "SLUICE_SERVER_TOKEN"])(
  "a program behind the bridge gets the environment without %s, which is the bridge's",
  async (name) => {
    const { stderr } = await sluice(["bridge", "--", process.execPath, "-e", teller], {
      env: { [name]: "secret", PLAIN: "kept" },
      onStart: (child) => void child.stdin!.end(`${JSON.stringify(initialize)}\n`),
    });
    expect(stderr).toContain('{"PLAIN":"kept"}');
  },
);
