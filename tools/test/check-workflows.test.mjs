import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { actionsOf, checkOneDigest, checkWorkflow, validatorOf } from "../check-workflows.mjs";

const digest = "3d3c42e5aac5ba805825da76410c181273ba90b1";
const known = { scripts: ["test"], tasks: ["test", "release"] };
const workflow = `on: push
permissions:
  contents: read
jobs:
  build:
    runs-on: ubuntu-24.04
    timeout-minutes: 10
    steps:
      - uses: actions/checkout@${digest} # v7.0.1
        with:
          persist-credentials: false
      - run: .ci/test
      - run: npm test
      - run: npm run release -- --dry-run
`;

test("a workflow with pinned actions, little permission and scripts passes", () => {
  expect(checkWorkflow(workflow, known)).toEqual([]);
  expect(actionsOf(workflow)).toEqual([{ action: "actions/checkout", digest, version: "v7.0.1" }]);
});

const mistakes = [
  ["a tag in place of a digest", digest, "v7", "pin it by its whole digest"],
  ["a digest without its version", " # v7.0.1", "", "pin it by its whole digest"],
  ["a digest that is cut", digest, digest.slice(0, 7), "pin it by its whole digest"],
  ["no permissions stated", "permissions:\n  contents: read\n", "", "begin with contents: read"],
  ["permission to write everywhere", "contents: read", "contents: write", "begin with contents"],
  ["no limit of time", "    timeout-minutes: 10\n", "", "build: has no timeout-minutes"],
  ["a token that steps can read", "credentials: false", "credentials: true", "leaves its token"],
  ["a line of shell", "npm test", "npm test && npm publish", "is not one script"],
  ["a text of an event", "--dry-run", "${{ github.head_ref }}", "is not one script"],
  ["a script that is not there", ".ci/test", ".ci/tests", ".ci/tests does not exist"],
  ["a task that is not there", "npm test", "npm run tests", "has no script tests"],
  ["a job that is not there", "    runs-on", "    needs: [lint]\n    runs-on", "which is no job"],
];
test.each(mistakes)("a workflow with %s is found", (_, from, to, finding) => {
  const broken = workflow.replace(from, to);
  expect(broken).not.toBe(workflow);
  expect(checkWorkflow(broken, known).join("\n")).toContain(finding);
});

test("an action has one digest in all workflows", () => {
  const other = workflow.replace(digest, digest.replace("3d", "4d"));
  expect(checkOneDigest([workflow, workflow])).toEqual([]);
  expect(checkOneDigest([workflow, other])).toEqual(["actions/checkout: has several digests"]);
});

test("a workflow is valid by the published schema, and one with any of these mistakes is not", () => {
  const file = new URL("../schemas/github-workflow.json", import.meta.url);
  const findingsOf = validatorOf(JSON.parse(readFileSync(file, "utf8")));
  expect(findingsOf(parse(workflow))).toEqual([]);
  for (const [from, to] of [
    ["timeout-minutes", "timeout-minute"],
    ["runs-on: ubuntu-24.04", "name: x"],
    ["on: push", "on: pushed"],
  ])
    expect(findingsOf(parse(workflow.replace(from, to))), to).not.toEqual([]);
});
