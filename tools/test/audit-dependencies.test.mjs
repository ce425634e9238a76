import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { readAudit } from "../audit-dependencies.mjs";

const tool = fileURLToPath(new URL("../audit-dependencies.mjs", import.meta.url));

/** Runs the tool against a registry that says this to a question for advisories. */
async function auditWith(status, advisories) {
  const server = createServer((req, res) => {
    const isAsked = req.url.endsWith("/advisories/bulk");
    req.resume().on("end", () => {
      res.writeHead(isAsked ? status : 404, { "content-type": "application/json" });
      res.end(JSON.stringify(isAsked ? advisories : {}));
    });
  });
  onTestFinished(() => server.closeAllConnections());
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const child = spawn(process.execPath, [
    tool,
    "--registry",
    `http://127.0.0.1:${server.address().port}/`,
  ]);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += text));
  const [code] = await once(child, "close");
  return { code, said };
}

const advisory = (id, severity) => ({
  id,
  url: "https://advisories.example/1",
  title: "it breaks",
  severity,
  vulnerable_versions: "<999.0.0",
  cwe: [],
  cvss: { score: 7, vectorString: null },
});

test("a known vulnerability of high severity fails, and is named", { tags: "slow" }, async () => {
  const { code, said } = await auditWith(200, {
    ws: [advisory(1, "high")],
    zod: [advisory(2, "low")],
  });
  expect(said).toMatch(
    /^ws: high: it breaks \(https:\/\/advisories\.example\/1\); by \S*ws; fixed/,
  );
  expect(said).not.toContain("zod:");
  expect(code).toBe(1);
});

// what the tool makes of such an answer is tried below; here the real pnpm gives it
test.runIf(process.env["SLUICE_DEEP"])(
  "a registry that has no advisories is told as the reason why there was no audit",
  async () => {
    const { code, said } = await auditWith(404, {});
    expect(said).toMatch(/^audit: skipped, the registry offers no advisories: .*doesn't exist/);
    expect(code).toBe(0);
  },
);

const metadata = { totalDependencies: 5 };

test("dependencies without one are counted", () => {
  const low = { module_name: "a", severity: "moderate", findings: [] };
  const stdout = JSON.stringify({ advisories: { 1: low }, metadata });
  expect(readAudit({ stdout, stderr: "" })).toEqual({ findings: [], dependencies: 5 });
});

test.each([
  ["nothing", "", ""],
  ["a page", "<html>", ""],
  ["no advisories", JSON.stringify({ metadata }), ""],
  ["no dependencies", JSON.stringify({ advisories: {}, metadata: { totalDependencies: 0 } }), ""],
  ["another error", "", "Error: ERR_PNPM_AUDIT_NO_LOCKFILE\n\n  × No pnpm-lock.yaml found"],
  [
    "an answer that is no JSON",
    "",
    "Error: ERR_PNPM_AUDIT_BAD_RESPONSE\n\n  × The audit endpoint returned invalid JSON",
  ],
])("an audit that says %s fails: it is not taken for a good one", (_, stdout, stderr) => {
  expect(() => readAudit({ stdout, stderr })).toThrow(/^the audit/);
});

test.each([
  [
    "a refusal",
    "ERR_PNPM_AUDIT_BAD_RESPONSE\n\n  × The audit endpoint (at x\n  │ y) responded with 405: ",
  ],
  ["no network", "ERR_PNPM_AUDIT_BAD_RESPONSE\n\n  × Failed to request the audit endpoint (at x)"],
])("%s is a reason to go on, in one line", (_, stderr) => {
  const { skipped } = readAudit({ stdout: "", stderr });
  expect(skipped).toMatch(/^ERR_PNPM_AUDIT_BAD_RESPONSE [^\n]+$/);
});
