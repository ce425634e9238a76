#!/usr/bin/env node
import { run } from "@sluice/cli/run";

await run(process.argv.slice(2));
